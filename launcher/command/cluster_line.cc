#include "launcher/command/cluster_line.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "common/settings.h"
#include "launcher/text/words.h"
#include "protocol/channel/channel.h"

namespace cuspan {
namespace {

Result<std::string> ReadHostfile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  if (!file || !(content << file.rdbuf()))
    return Status::Invalid("--hostfile: {} cannot be read, or is empty", path);
  return content.str();
}

Result<std::vector<HostRequest>> ReadHosts(const OptionValues& values) {
  if (const std::string& file = values.Text(settings::kHostfile); !file.empty()) {
    CUSPAN_ASSIGN_OR_RETURN(const std::string text, ReadHostfile(file));
    return ParseHostfile(text, file);
  }
  if (const std::string& hosts = values.Text(settings::kHosts); !hosts.empty())
    return ParseHosts(hosts);
  return std::vector<HostRequest>();
}

// Parsed value of an option. The parser names the option in its errors, without dashes.
template <typename Value>
Status Assign(Result<Value> parsed, Value& value) {
  if (!parsed.ok()) return Status::Invalid("--{}", parsed.status().message());
  value = std::move(*parsed);
  return Status::Ok();
}

// Every agent reads these settings; checking them here reports an error only once.
Status CheckAgentSettings() {
  if (const Result<ChannelLayout> layout = ChannelLayout::FromSettings(); !layout.ok())
    return layout.status();
  return SettingNumber(settings::kSendsInFlight, 1, 64).status();
}

}  // namespace

Result<ClusterOptions> CheckClusterOptions(const OptionValues& values) {
  ClusterOptions options;
  CUSPAN_ASSIGN_OR_RETURN(options.hosts, ReadHosts(values));
  CUSPAN_ASSIGN_OR_RETURN(options.request, CheckGpuRequest(RequestTexts(values)));
  CUSPAN_ASSIGN_OR_RETURN(options.device, values.Choice(settings::kDevice));
  CUSPAN_RETURN_IF_ERROR(
      Assign(ParseSameNode(values.Text(settings::kSameNode)), options.same_node));
  CUSPAN_RETURN_IF_ERROR(CheckAgentSettings());
  CUSPAN_RETURN_IF_ERROR(Assign(ParseLanes(values.Text(settings::kLanes)), options.lanes));
  CUSPAN_RETURN_IF_ERROR(Assign(ParseRelay(values.Text(settings::kRelay)), options.relay));
  CUSPAN_RETURN_IF_ERROR(Assign(ParseSecure(values.Text(settings::kSecure)), options.secure));
  options.mpirun = SettingText(settings::kMpirun);
  options.remote_shell = values.Text(settings::kRemoteShell);
  options.remote_prefix = values.Text(settings::kRemotePrefix);
  if (!options.remote_prefix.empty() && options.remote_prefix.front() != '/')
    return Status::Invalid("--remote-prefix {}: an absolute path is needed", options.remote_prefix);
  const std::string& arguments = values.Text(settings::kMpirunArguments);
  options.mpirun_arguments =
      SplitWords(arguments.empty() ? SettingText(settings::kMpirunArguments) : arguments);
  return options;
}

Result<std::uint32_t> ParseUpTo4096(const std::string& text, const char* option,
                                    const char* range) {
  char* end = nullptr;
  const unsigned long number = std::strtoul(text.c_str(), &end, 10);
  if (*end != '\0' || text.empty() || text.front() < '0' || text.front() > '9' || number == 0 ||
      number > 4096)
    return Status::Invalid("{} {}: {} 1 to 4096", option, text, range);
  return static_cast<std::uint32_t>(number);
}

}  // namespace cuspan

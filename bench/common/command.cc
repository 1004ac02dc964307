#include "bench/common/command.h"

#include <cstdio>
#include <fstream>
#include <map>

#include "common/log.h"
#include "common/settings.h"
#include "launcher/host/app_process.h"
#include "launcher/text/help_text.h"
#include "launcher/text/option_values.h"
#include "launcher/text/parse_errors.h"

namespace cuspan::bench {

void AddDeviceOption(CLI::App& app, std::string& device) {
  app.add_option("--device", device,
                 "driver to use: cuda, soft (the software GPU), or auto (cuda if it works)")
      ->type_name("auto|cuda|soft")
      ->check(OneOf({"auto", "cuda", "soft"}));
}

void AddTransportOption(CLI::App& app, std::string& transport) {
  app.add_option("--transport", transport,
                 "transport of the agents' MPI and UCX: tcp, shm, ucx (MPI over UCX), or auto")
      ->type_name("auto|tcp|shm|ucx")
      ->check(OneOf({"auto", "tcp", "shm", "ucx"}));
}

void AddRelaysOption(CLI::App& app, std::vector<RelayKind>& relays) {
  const Result<RelayKind> chosen = ParseRelayKind(SettingText(settings::kRelay));
  relays = {chosen.ok() ? *chosen : RelayKind::kMpi};
  std::map<std::string, RelayKind> kinds;
  for (const RelayKind kind : kRelayKinds) kinds.emplace(NameOf(kind), kind);
  app.add_option("--relay", relays,
                 "relays between agents: mpi,ucx (default: CUSPAN_RELAY, or mpi)")
      ->type_name("mpi|ucx,…")
      ->delimiter(',')
      ->transform(CLI::CheckedTransformer(kinds).description(""));
}

CLI::Validator OneOf(const std::vector<std::string>& values) {
  return CLI::IsMember(values).description("");
}

void AddResultsOption(CLI::App& app, const std::string& name, std::string& path) {
  app.add_option(name, path, "also write the results to this file")->type_name("FILE");
}

std::optional<int> Parse(CLI::App& app, int argc, const char* const* argv) {
  AddHelpOption(app);
  try {
    app.parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::CallForHelp&) {
    std::fputs(CommandHelp(app).c_str(), stdout);
    return 0;
  } catch (const CLI::ParseError& error) {
    LogError("{}; see {} --help", DescribeParseError(error), app.get_name());
    return kExitUsage;
  }
}

Status WriteFile(const std::string& path, const std::string& text) {
  if (path.empty()) return Status::Ok();
  std::ofstream file(path);
  file << text;
  file.close();
  return file ? Status::Ok() : Status::Invalid("{} cannot be written", path);
}

Status MakeFiles(std::initializer_list<std::string> paths) {
  for (const std::string& path : paths) CUSPAN_RETURN_IF_ERROR(WriteFile(path, ""));
  return Status::Ok();
}

int ExitStatusOf(const Status& status) {
  if (status.ok()) return 0;
  LogError("{}", status.message());
  return 125;
}

}  // namespace cuspan::bench

#include "launcher/batch/slurm_job.h"

#include <sys/wait.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "common/trim.h"
#include "launcher/batch/command_output.h"
#include "launcher/host/own_host.h"
#include "launcher/run/host_names.h"
#include "launcher/text/words.h"

namespace cuspan {
namespace {

using std::chrono::milliseconds;

std::optional<std::uint32_t> Number(std::string_view text) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional(number)
                                                                  : std::nullopt;
}

// Parts between commas outside of parentheses.
std::vector<std::string_view> Items(std::string_view list) {
  std::vector<std::string_view> items;
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= list.size(); ++i) {
    if (i < list.size() && list[i] == '(') ++depth;
    if (i < list.size() && list[i] == ')') --depth;
    if (i < list.size() && (list[i] != ',' || depth > 0)) continue;
    if (i > begin) items.push_back(list.substr(begin, i - begin));
    begin = i + 1;
  }
  return items;
}

// Adds "gpu:2(IDX:0-1)", "gpu:a100:1(IDX:3)" or "gpu:2"; ignores other resources.
Status AddGres(std::string_view item, SlurmNode& node) {
  const std::size_t parenthesis = std::min(item.find('('), item.size());
  const std::string_view name = item.substr(0, parenthesis);
  if (!name.starts_with("gpu:")) return Status::Ok();
  const std::optional<std::uint32_t> count = Number(name.substr(name.rfind(':') + 1));
  if (!count) return Status::Invalid("'{}' is not a number of GPUs", item);
  node.gpus += *count;
  constexpr std::string_view kIndices = "(IDX:";
  std::string_view details = item.substr(parenthesis);
  if (!details.starts_with(kIndices) || !details.ends_with(')') || *count == 0) return Status::Ok();
  details.remove_prefix(kIndices.size());
  details.remove_suffix(1);
  CUSPAN_ASSIGN_OR_RETURN(const std::vector<std::uint32_t> indices, ParseIndices(details));
  node.indices.insert(node.indices.end(), indices.begin(), indices.end());
  return Status::Ok();
}

std::string_view ValueOf(std::string_view word, std::string_view name) {
  return word.starts_with(name) ? word.substr(name.size()) : std::string_view();
}

// Output of a command, including standard error if `both`.
Result<std::string> OutputOf(const std::vector<std::string>& words, milliseconds limit,
                             bool both = true) {
  Result<CommandOutput> output = RunForOutput(words, both, limit);
  if (!output.ok()) {
    const std::string why = Format("{}: {}", QuoteForShell(words), output.status().message());
    return output.status().code() == StatusCode::kNotFound ? Status::NotFound("{}", why)
                                                           : Status::Unavailable("{}", why);
  }
  if (WIFEXITED(output->wait_status) && WEXITSTATUS(output->wait_status) == 0)
    return std::move(output->text);
  const std::vector<std::string_view> lines = OutputLines(output->text);
  const std::string why = Format("{}: {}", QuoteForShell(words),
                                 lines.empty() ? "it failed without a message" : lines.front());
  const bool unknown = output->text.find("Invalid job id") != std::string::npos;
  return unknown ? Status::NotFound("{}", why) : Status::Unavailable("{}", why);
}

Result<std::vector<std::string>> ExpandByScontrol(const std::string& list, milliseconds limit) {
  if (list.find('[') == std::string::npos && list.find(',') == std::string::npos)
    return std::vector<std::string>{list};
  CUSPAN_ASSIGN_OR_RETURN(const std::string output,
                          OutputOf({"scontrol", "show", "hostnames", list}, limit, false));
  const std::vector<std::string_view> lines = OutputLines(output);
  return std::vector<std::string>(lines.begin(), lines.end());
}

}  // namespace

Result<std::vector<std::uint32_t>> ParseIndices(std::string_view list) {
  constexpr std::uint32_t kMost = 4096;
  std::vector<std::uint32_t> indices;
  for (const std::string_view item : Items(list)) {
    const std::size_t dash = std::min(item.find('-'), item.size());
    const std::optional<std::uint32_t> first = Number(item.substr(0, dash));
    const std::optional<std::uint32_t> last =
        dash == item.size() ? first : Number(item.substr(dash + 1));
    if (!first || !last || *last < *first || *last >= kMost)
      return Status::Invalid("'{}' is not a list of numbers such as 0,2-3", list);
    for (std::uint32_t index = *first; index <= *last; ++index) indices.push_back(index);
  }
  return indices;
}

Result<std::vector<SlurmNode>> ParseSlurmJob(std::string_view text, std::string_view id,
                                             const ExpandNodes& expand) {
  std::vector<SlurmNode> nodes;
  bool is_the_job = false;
  std::uint32_t component = 0;
  for (const std::string_view line : OutputLines(text)) {
    if (line.starts_with("JobId=")) {
      is_the_job = false;
      component = 0;
    }
    SlurmNode described;
    std::string list;
    for (std::string_view rest = line; !rest.empty();) {
      const std::size_t blank = std::min(rest.find(' '), rest.size());
      const std::string_view word = rest.substr(0, blank);
      rest = Trim(rest.substr(blank));
      if (ValueOf(word, "JobId=") == id || ValueOf(word, "HetJobId=") == id) is_the_job = true;
      if (const std::string_view value = ValueOf(word, "HetJobOffset="); !value.empty())
        component = Number(value).value_or(0);
      if (!is_the_job || !line.starts_with("Nodes=")) continue;
      if (const std::string_view value = ValueOf(word, "Nodes="); !value.empty()) list = value;
      for (const std::string_view item : Items(ValueOf(word, "GRES="))) {
        CUSPAN_RETURN_IF_ERROR(AddGres(item, described));
      }
    }
    if (list.empty()) continue;
    described.component = component;
    CUSPAN_ASSIGN_OR_RETURN(const std::vector<std::string> names, expand(list));
    for (const std::string& name : names) {
      nodes.push_back(described);
      nodes.back().name = name;
    }
  }
  if (nodes.empty()) return Status::Invalid("it has no nodes");
  return nodes;
}

std::vector<std::string_view> SlurmSetting(std::string_view text, std::string_view name) {
  for (const std::string_view line : OutputLines(text)) {
    const std::size_t equals = line.find('=');
    if (equals != std::string_view::npos && Trim(line.substr(0, equals)) == name)
      return Items(Trim(line.substr(equals + 1)));
  }
  return {};
}

const SlurmNode* FindNode(const std::vector<SlurmNode>& nodes, std::string_view host,
                          std::string_view own_name) {
  return FindHost(nodes, IsThisHost(host, own_name) ? own_name : host);
}

std::string OwnNodeName(const Environment& environment) {
  const std::optional<std::string_view> name = environment.Get("SLURMD_NODENAME");
  return name ? std::string(*name) : OwnHostName();
}

Result<SlurmJob> AskSlurm(const Environment& environment, milliseconds limit) {
  SlurmJob job;
  // Only the id of its first component leads to all components of a heterogeneous job.
  job.id = environment.Get("SLURM_JOB_ID_HET_GROUP_0")
               .value_or(environment.Get("SLURM_JOB_ID").value_or(""));
  CUSPAN_ASSIGN_OR_RETURN(const std::string text,
                          OutputOf({"scontrol", "--details", "show", "job", job.id}, limit));
  Result<std::vector<SlurmNode>> nodes = ParseSlurmJob(
      text, job.id, [limit](const std::string& list) { return ExpandByScontrol(list, limit); });
  if (!nodes.ok())
    return Status::Unavailable("scontrol --details show job {}: {}", job.id,
                               nodes.status().message());
  job.nodes = std::move(*nodes);
  CUSPAN_ASSIGN_OR_RETURN(const std::string configuration,
                          OutputOf({"scontrol", "show", "config"}, limit));
  const auto has = [&configuration](std::string_view setting, std::string_view word) {
    const std::vector<std::string_view> words = SlurmSetting(configuration, setting);
    return std::find(words.begin(), words.end(), word) != words.end();
  };
  job.counts_gpus = has("GresTypes", "gpu");
  job.constrains = has("ConstrainDevices", "yes");
  job.binds = has("TaskPlugin", "task/affinity") || has("TaskPlugin", "affinity");
  return job;
}

}  // namespace cuspan

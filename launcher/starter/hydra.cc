#include "launcher/starter/hydra.h"

#include <sys/wait.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <initializer_list>
#include <iterator>

#include "common/batch_system.h"
#include "launcher/text/words.h"

namespace cuspan {
namespace {

bool Has(std::string_view line, std::string_view part) {
  return line.find(part) != std::string_view::npos;
}

// Text after `label` in a line of the box printed about a failed process.
std::string_view InBox(const std::vector<std::string_view>& lines, std::string_view label) {
  for (const std::string_view line : lines)
    if (const std::size_t at = line.find(label); line.starts_with("=") && at != line.npos)
      return line.substr(at + label.size());
  return {};
}

// The code in the box is a status from waitpid.
std::string HowItEnded(std::string_view code) {
  int status = 0;
  std::from_chars(code.data(), code.data() + code.size(), status);
  if (WIFSIGNALED(status))
    return Format("on signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)));
  return Format("with code {}", code);
}

// True for errors on the way to another host: from ssh, its shell there, or the loader. Hydra keeps
// waiting for the host.
bool IsRemoteShellMessage(std::string_view line) {
  return IsSshMessage(line) ||
         (Has(line, "hydra_pmi_proxy") &&
          (Has(line, "not found") || Has(line, "No such file") || Has(line, "shared libraries")));
}

// "[proxy:0:0@HOST] HYDU_create_process (…): execvp error on file FILE (REASON)"
bool IsMissingAgentMessage(std::string_view line) {
  return line.starts_with("[proxy:") && Has(line, "execvp error on file ");
}

// Error of an agent's loader; it does not name the host.
bool IsLoaderMessage(std::string_view line) {
  return Has(line, "cuspan-agent: error while loading shared libraries: ");
}

// True if one of these options is present, with one dash or two.
bool HasOption(const std::vector<std::string>& words,
               std::initializer_list<std::string_view> names) {
  return std::any_of(words.begin(), words.end(), [&names](std::string_view word) {
    for (int dashes = 0; dashes < 2 && word.starts_with('-'); ++dashes) word.remove_prefix(1);
    return std::find(names.begin(), names.end(), word) != names.end();
  });
}

}  // namespace

std::vector<std::string> Hydra::Command(const std::vector<RankGroup>& ranks,
                                        const std::vector<std::string>& extra,
                                        const std::vector<std::string>& variables) const {
  std::vector<std::string> command = {"mpiexec", "-bind-to", "none"};
  command.insert(command.end(), extra.begin(), extra.end());
  std::string names;
  for (const std::string& name : variables) names += (names.empty() ? "" : ",") + name;
  if (!names.empty() && !HasOption(extra, {"genvlist", "genvall", "genvnone"}))
    command.insert(command.end(), {"-genvlist", names});
  // One list of hosts for all ranks, assigned in its order.
  const bool others = std::any_of(ranks.begin(), ranks.end(),
                                  [](const RankGroup& group) { return group.host != kThisHost; });
  std::string hosts;
  for (const RankGroup& group : ranks)
    hosts += Format("{}{}:{}", hosts.empty() ? "" : ",",
                    // Other hosts look up this one by its own name.
                    others && group.host == kThisHost ? own_host_ : group.host, group.count);
  command.insert(command.end(), {"-hosts", hosts});
  for (const RankGroup& group : ranks) {
    if (&group != &ranks.front()) command.push_back(":");
    command.insert(command.end(), {"-n", std::to_string(group.count)});
    command.insert(command.end(), group.command.begin(), group.command.end());
  }
  return command;
}

Status Hydra::Confine(Environment&, const std::vector<std::string>&,
                      const std::vector<std::string>&) const {
  return Status::Invalid(
      "--secure cannot restrict MPICH to an interface: use --relay ucx, or a cuspan built with "
      "Open MPI");
}

void Hydra::AddSettings(Environment& environment, const Plan&,
                        const std::vector<std::string>& extra, const std::string& remote_shell,
                        bool) const {
  if (const std::vector<std::string> words = SplitWords(remote_shell); !words.empty()) {
    std::string options;
    for (std::size_t i = 1; i < words.size(); ++i) options += (i == 1 ? "" : " ") + words[i];
    environment.Set("HYDRA_LAUNCHER", "rsh");
    environment.Set("HYDRA_LAUNCHER_EXEC", words.front());
    if (!options.empty()) environment.Set("HYDRA_LAUNCHER_EXTRA_ARGS", options);
    return;
  }
  for (const char* const name : {"HYDRA_LAUNCHER", "HYDRA_BOOTSTRAP", "HYDRA_LAUNCHER_EXEC",
                                 "HYDRA_BOOTSTRAP_EXEC", "HYDRA_LAUNCHER_EXTRA_ARGS"})
    if (environment.Get(name)) return;
  if (BatchSystemAround(environment) != BatchSystem::kNone ||
      HasOption(extra, {"launcher", "bootstrap", "rmk", "launcher-exec", "bootstrap-exec"}))
    return;
  // The agents have no terminal to answer a question of ssh.
  environment.Set("HYDRA_LAUNCHER", "ssh");
  environment.Set("HYDRA_LAUNCHER_EXTRA_ARGS", "-oBatchMode=yes -oConnectTimeout=10");
}

bool Hydra::MustPass(std::string_view variable) const {
  return variable.starts_with("MPIR_CVAR_") || variable.starts_with("FI_") ||
         variable.starts_with("UCX_");
}

bool Hydra::JobHasEnded(std::string_view output) const {
  const std::vector<std::string_view> lines = OutputLines(output);
  return Has(output, "BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES") ||
         std::any_of(lines.begin(), lines.end(), [](std::string_view line) {
           return IsRemoteShellMessage(line) || IsMissingAgentMessage(line) ||
                  IsLoaderMessage(line);
         });
}

std::string Hydra::Explain(std::string_view output, const Plan& plan) const {
  const std::vector<std::string_view> lines = OutputLines(output);
  const auto find = [&lines](auto matches) {
    return std::find_if(lines.begin(), lines.end(), matches);
  };
  if (const auto line = find(IsMissingAgentMessage); line != lines.end()) {
    const std::size_t host = line->find('@');
    const std::size_t file = line->find("on file ") + 8;
    return Format("host {} has no {}: install cuspan in the same directory on every host",
                  host == line->npos ? "?" : line->substr(host + 1, line->find(']') - host - 1),
                  line->substr(file, line->find(" (", file) - file));
  }
  if (const std::string_view host = InBox(lines, " RUNNING AT "); !host.empty())
    return Format("the agent on host {} exited {}", host, HowItEnded(InBox(lines, "EXIT CODE: ")));
  std::vector<std::string_view> of_shells;
  std::copy_if(lines.begin(), lines.end(), std::back_inserter(of_shells), IsRemoteShellMessage);
  if (!of_shells.empty()) return ExplainUnreached(of_shells, plan);
  if (const auto line = find(IsLoaderMessage); line != lines.end())
    return Format("an agent does not start: {}", *line);
  const auto first = find([](std::string_view line) { return !line.starts_with("="); });
  if (first == lines.end()) return "mpiexec exited without a message";
  return Format("mpiexec: {}", *first);
}

}  // namespace cuspan

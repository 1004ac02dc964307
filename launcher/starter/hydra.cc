#include "launcher/starter/hydra.h"

#include <sys/wait.h>

#include <algorithm>
#include <charconv>
#include <cstring>

namespace cuspan {
namespace {

bool Has(std::string_view line, std::string_view part) {
  return line.find(part) != std::string_view::npos;
}

// What follows `label` in a line of the box that it prints about a process that failed.
std::string_view InBox(const std::vector<std::string_view>& lines, std::string_view label) {
  for (const std::string_view line : lines)
    if (const std::size_t at = line.find(label); line.starts_with("=") && at != line.npos)
      return line.substr(at + label.size());
  return {};
}

// The code in the box is that of waitpid: a signal's number, where it was one.
std::string HowItEnded(std::string_view code) {
  int status = 0;
  std::from_chars(code.data(), code.data() + code.size(), status);
  if (WIFSIGNALED(status))
    return Format("on signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)));
  return Format("with code {}", code);
}

// Of the program that reaches other hosts. Hydra waits for the host all the same.
bool IsOfRemoteShell(std::string_view line) { return line.starts_with("ssh: "); }

}  // namespace

std::vector<std::string> Hydra::Command(const std::vector<RankGroup>& ranks,
                                        const std::vector<std::string>& extra,
                                        const std::vector<std::string>& variables) const {
  std::vector<std::string> command = {"mpiexec", "-bind-to", "none"};
  command.insert(command.end(), extra.begin(), extra.end());
  std::string names;
  for (const std::string& name : variables) names += (names.empty() ? "" : ",") + name;
  if (!names.empty()) command.insert(command.end(), {"-genvlist", names});
  // One list of hosts for all ranks, which are given out in its order.
  std::string hosts;
  bool others = false;
  for (const RankGroup& group : ranks) {
    hosts += Format("{}{}:{}", hosts.empty() ? "" : ",", group.host, group.count);
    others = others || group.host != kThisHost;
  }
  // Other hosts would look for this one under the name that it has in the list.
  if (others) command.insert(command.end(), {"-localhost", own_host_});
  command.insert(command.end(), {"-hosts", hosts});
  for (const RankGroup& group : ranks) {
    if (&group != &ranks.front()) command.push_back(":");
    command.insert(command.end(), {"-n", std::to_string(group.count)});
    command.insert(command.end(), group.command.begin(), group.command.end());
  }
  return command;
}

void Hydra::AddSettings(Environment& environment, const Plan&, const std::vector<std::string>&,
                        const std::string& remote_shell, bool) const {
  if (!remote_shell.empty()) {
    environment.Set("HYDRA_LAUNCHER", "rsh");
    environment.Set("HYDRA_LAUNCHER_EXEC", remote_shell);
  }
  // The agents have no terminal, so a question of ssh could not be answered.
  if (!environment.Get("HYDRA_LAUNCHER_EXEC") && !environment.Get("HYDRA_LAUNCHER_EXTRA_ARGS"))
    environment.Set("HYDRA_LAUNCHER_EXTRA_ARGS", "-oBatchMode=yes -oConnectTimeout=10");
}

bool Hydra::JobHasEnded(std::string_view output) const {
  const std::vector<std::string_view> lines = OutputLines(output);
  return Has(output, "BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES") ||
         std::any_of(lines.begin(), lines.end(), IsOfRemoteShell);
}

std::string Hydra::Explain(std::string_view output, const Plan& plan) const {
  const std::vector<std::string_view> lines = OutputLines(output);
  const auto find = [&lines](auto matches) {
    return std::find_if(lines.begin(), lines.end(), matches);
  };
  // "[proxy:0:0@HOST] HYDU_create_process (…): execvp error on file FILE (REASON)"
  if (const auto line = find([](std::string_view l) { return Has(l, "execvp error on file "); });
      line != lines.end()) {
    const std::size_t host = line->find('@');
    const std::size_t file = line->find("on file ") + 8;
    return Format("host {} has no {}: install cuspan in the same directory on every host",
                  host == line->npos ? "?" : line->substr(host + 1, line->find(']') - host - 1),
                  line->substr(file, line->find(" (", file) - file));
  }
  if (const std::string_view host = InBox(lines, " RUNNING AT "); !host.empty())
    return Format("the agent on host {} exited {}", host, HowItEnded(InBox(lines, "EXIT CODE: ")));
  if (const auto line = find(IsOfRemoteShell); line != lines.end()) {
    const std::string host = NamedHost(*line, plan);
    return host.empty() ? Format("a host cannot be reached: {}", *line)
                        : Format("host {} cannot be reached: {}", host, *line);
  }
  const auto first = find([](std::string_view line) { return !line.starts_with("="); });
  if (first == lines.end()) return "mpiexec exited without a message";
  return Format("mpiexec: {}", *first);
}

}  // namespace cuspan

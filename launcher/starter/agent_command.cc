#include "launcher/starter/agent_command.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/find_command.h"
#include "launcher/text/words.h"

namespace cuspan {

std::vector<std::string> AgentPlanOptions(const Plan& plan, std::size_t agent) {
  std::vector<std::string> options = {settings::kServe.option,
                                      ServeText(plan.agents[agent].devices)};
  if (agent == 0 && plan.head_position != 0) {
    options.emplace_back(settings::kPlace.option);
    options.push_back(std::to_string(plan.head_position));
  }
  return options;
}

std::vector<AgentVariable> AgentVariables(const ClusterOptions& options, std::uint32_t lanes) {
  return {{&settings::kDevice, options.device},
          {&settings::kSameNode, options.same_node == SameNode::kNever ? "never" : "auto"},
          {&settings::kLanes, std::to_string(lanes)},
          // Also if it is off, since the environment may differ.
          {&settings::kSecure, SecureText(options.secure)},
          {&settings::kFiles, options.files},
          {&settings::kFileRoot, options.file_roots},
          {&settings::kFileMemory, options.file_memory}};
}

std::vector<RankGroup> RanksOf(const Plan& plan, const AgentCommand& agent) {
  const auto path = [&agent](const std::string& host) {
    return host == kThisHost ? agent.path : agent.remote_path;
  };
  std::vector<RankGroup> groups;
  for (std::size_t i = 0; i < plan.agents.size(); ++i) {
    const std::string& host = plan.agents[i].host;
    std::vector<std::string> command = AgentPlanOptions(plan, i);
    command.insert(command.begin(), path(host));
    if (i == 0) command.insert(command.end(), agent.head_options.begin(), agent.head_options.end());
    groups.push_back({1, host, std::move(command)});
  }
  if (plan.lanes > 1)
    for (const AgentPlan& planned : plan.agents)
      groups.push_back({plan.lanes, planned.host, {path(planned.host)}});
  return groups;
}

std::string RemoteShellText(const ClusterOptions& options, const Environment& environment) {
  if (!options.remote_shell.empty()) return options.remote_shell;
  if (const auto chosen = environment.Get("OMPI_MCA_plm_rsh_agent"))
    return std::string(chosen->substr(0, chosen->find(':')));  // Open MPI tries this one first.
  // The agents have no terminal to answer a question of ssh.
  return "ssh -oBatchMode=yes -oConnectTimeout=10";
}

std::string HostsText(const Plan& plan) {
  std::vector<std::string> hosts;
  for (const AgentPlan& agent : plan.agents) {
    const std::string host = agent.host == kThisHost ? "this host" : agent.host;
    if (std::find(hosts.begin(), hosts.end(), host) == hosts.end()) hosts.push_back(host);
  }
  std::string text;
  for (std::size_t i = 0; i < hosts.size(); ++i)
    text += (i == 0 ? "" : i + 1 == hosts.size() ? " and " : ", ") + hosts[i];
  return text;
}

bool IsWaitingReport(std::string_view line) {
  return line.starts_with("cuspan agent") && line.find("]: waiting for ") != line.npos;
}

std::string NamedHost(std::string_view line, const Plan& plan) {
  const auto is_of_name = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  const auto names = [&](const std::string& host) {
    for (std::size_t at = line.find(host); at != line.npos; at = line.find(host, at + 1)) {
      std::size_t end = at + host.size();
      if (end < line.size() && line[end] == '.') ++end;  // The full stop of a sentence.
      if ((at == 0 || !is_of_name(line[at - 1])) && (end >= line.size() || !is_of_name(line[end])))
        return true;
    }
    return false;
  };
  std::string best;
  for (const AgentPlan& agent : plan.agents)
    if (agent.host.size() > best.size() && names(agent.host)) best = agent.host;
  return best;
}

bool IsSshMessage(std::string_view line) {
  constexpr std::string_view kWords[] = {"Permission denied (", "Host key verification failed",
                                         "kex_exchange_identification:", "Connection closed by ",
                                         "Connection reset by "};
  return line.starts_with("ssh: ") ||
         std::any_of(std::begin(kWords), std::end(kWords), [line](std::string_view words) {
           return line.find(words) != std::string_view::npos;
         });
}

std::string ExplainUnreached(const std::vector<std::string_view>& lines, const Plan& plan) {
  if (lines.empty()) return "";
  std::string text;
  for (const AgentPlan& agent : plan.agents) {
    const auto line = std::find_if(lines.begin(), lines.end(), [&](std::string_view one) {
      return NamedHost(one, plan) == agent.host;
    });
    if (agent.host == kThisHost || line == lines.end()) continue;
    text += Format("{}host {} cannot be reached: {}", text.empty() ? "" : "; ", agent.host, *line);
  }
  if (!text.empty()) return text;
  if (plan.agents.size() == 2)
    return Format("host {} cannot be reached: {}", plan.agents[1].host, lines.front());
  return Format("a host cannot be reached: {}; run cuspan doctor with the same hosts to find it",
                lines.front());
}

Status CheckRemoteShell(const Plan& plan, const ClusterOptions& options,
                        const Environment& environment) {
  const bool needed = std::any_of(plan.agents.begin(), plan.agents.end(),
                                  [](const AgentPlan& agent) { return agent.host != kThisHost; });
  // mpirun has its own way to reach hosts.
  if (!needed || (plan.mpi() && options.remote_shell.empty())) return Status::Ok();
  const std::vector<std::string> words = SplitWords(RemoteShellText(options, environment));
  if (words.empty()) return Status::Invalid("--remote-shell names no command");
  const Result<std::string> found =
      FindCommand(words.front(), environment.Get("PATH").value_or(""));
  if (found.ok()) return Status::Ok();
  return Status::NotFound(
      "the remote shell for other hosts cannot be used: {}; install it, or name another one with "
      "--remote-shell",
      found.status().message());
}

}  // namespace cuspan

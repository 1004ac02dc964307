#include "launcher/starter/direct_starter.h"

#include <sys/wait.h>

#include <algorithm>
#include <span>

#include "common/settings.h"
#include "launcher/host/wait_status.h"

namespace cuspan {
namespace {

// Options for the head agent about the worker agents.
std::vector<std::string> OtherAgentsOptions(const Plan& plan, const AgentCommand& agent,
                                            const ClusterOptions& options,
                                            const Environment& environment) {
  return {settings::kOthers.option,      AgentsText(std::span(plan.agents).subspan(1)),
          settings::kRemoteAgent.option, agent.remote_path,
          settings::kAgentShell.option,  RemoteShellText(options, environment)};
}

class DirectStarter final : public AgentStarter {
 public:
  DirectStarter(Plan plan, Environment environment, const AgentCommand& agent,
                const ClusterOptions& options)
      : AgentStarter(std::move(plan), std::move(environment)) {
    command_ = {agent.path};
    const auto add = [this](const std::vector<std::string>& words) {
      command_.insert(command_.end(), words.begin(), words.end());
    };
    if (plan_.relayed())
      add(OtherAgentsOptions(plan_, agent, options, environment_));
    else
      command_.emplace_back(settings::kAlone.option);
    add(AgentPlanOptions(plan_, 0));
    add(agent.head_options);
  }

  // Lines come from cuspan, from libraries used by proxies, or from remote shells. Until all agents
  // are connected, a line may explain a missing one.
  bool IsForUser(std::string_view line, bool ready) const override {
    return ready || !plan_.relayed() || IsWaitingReport(line);
  }
  std::string WaitsFor() const override { return Format("the agents on {}", HostsText(plan_)); }

  // The reason is the last line of the head agent, followed by the last line of a remote shell.
  // Earlier lines may be a greeting, or output of a library used by a proxy.
  std::string ExplainEnd(std::string_view kept, std::optional<int> wait_status) const override {
    if (wait_status && WIFSIGNALED(*wait_status))
      return Format("the agent on this host {}", DescribeExit(*wait_status));
    std::string own;
    std::string others;
    while (!kept.empty()) {
      const std::size_t end = std::min(kept.find('\n'), kept.size());
      const std::string_view line = kept.substr(0, end);
      kept.remove_prefix(std::min(end + 1, kept.size()));
      if (line.starts_with("cuspan")) {
        const std::size_t text = line.find(": ");
        own = text == std::string_view::npos ? line : line.substr(text + 2);
        // This error ends all other agents, and their messages about it differ.
        if (IsSecurePathMessage(own)) return own;
      } else if (!line.empty()) {
        others = line;
      }
    }
    if (own.empty())
      own = wait_status ? Format("the agent on this host {}", DescribeExit(*wait_status))
                        : "the agent on this host does not answer";
    return others.empty() ? own : Format("{}: {}", own, others);
  }
};

}  // namespace

std::unique_ptr<AgentStarter> MakeDirectStarter(Plan plan, Environment environment,
                                                const AgentCommand& agent,
                                                const ClusterOptions& options) {
  return std::make_unique<DirectStarter>(std::move(plan), std::move(environment), agent, options);
}

}  // namespace cuspan

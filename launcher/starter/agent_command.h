// Commands and options of agents, and messages about unreachable hosts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/settings.h"
#include "launcher/host/environment.h"
#include "launcher/run/cluster_options.h"
#include "launcher/run/plan.h"

namespace cuspan {

struct AgentCommand {
  std::string path;                       // Path of cuspan-agent on this host,
  std::string remote_path;                // and on all others.
  std::vector<std::string> head_options;  // Options of the head agent only.
};

// Options of one agent determined by the plan, in the syntax of cuspan-agent.
std::vector<std::string> AgentPlanOptions(const Plan& plan, std::size_t agent);

// A variable of the agents' environment.
struct AgentVariable {
  const Setting* setting;
  std::string value;
};
// Variables set from the options of `cuspan`: the settings with AgentsGet::kVariable and an option.
// `lanes`: the plan's number.
std::vector<AgentVariable> AgentVariables(const ClusterOptions& options, std::uint32_t lanes);

// Ranks with consecutive numbers in an MPI job.
struct RankGroup {
  std::uint32_t count;
  std::string host;
  std::vector<std::string> command;
};
// The agents, followed by the lanes of each if there are any.
std::vector<RankGroup> RanksOf(const Plan& plan, const AgentCommand& agent);

// Remote shell used by cuspan itself, called like ssh: the user's choice, or an ssh without
// questions.
std::string RemoteShellText(const ClusterOptions& options, const Environment& environment);

// Hosts of the plan's agents, for a message: "this host, n1 and n2".
std::string HostsText(const Plan& plan);
// True for a line of an agent about the reason for a slow start.
bool IsWaitingReport(std::string_view line);
// Host of the plan occurring in the line as a word; "" if none.
std::string NamedHost(std::string_view line, const Plan& plan);
// True for an error message of ssh about an unreachable host.
bool IsSshMessage(std::string_view line);
// Text about unreachable hosts, from output lines of remote shells: each host with the first line
// naming it. If none is named, the first line, for the plan's only other host or an unknown one. ""
// without lines.
std::string ExplainUnreached(const std::vector<std::string_view>& lines, const Plan& plan);

// kNotFound if agents of the plan need a remote shell chosen by cuspan or its user, and this
// command does not exist.
Status CheckRemoteShell(const Plan& plan, const ClusterOptions& options,
                        const Environment& environment);

}  // namespace cuspan

// Commands that start agents, options of agents, and messages about unreachable hosts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/host/environment.h"
#include "launcher/run/cluster_options.h"
#include "launcher/run/plan.h"

namespace cuspan {

struct AgentCommand {
  std::string path;                       // Of cuspan-agent on this host,
  std::string remote_path;                // and on all others.
  std::vector<std::string> home_options;  // Of the head agent alone.
};

// The options of one agent that the plan decides, as cuspan-agent reads them.
std::vector<std::string> AgentPlanOptions(const Plan& plan, std::size_t agent);

// Ranks that lie next to each other in an MPI job.
struct RankGroup {
  std::uint32_t count;
  std::string host;
  std::vector<std::string> command;
};
// The agents, then the lanes of each where it has some.
std::vector<RankGroup> RanksOf(const Plan& plan, const AgentCommand& agent);

// What reaches other hosts where cuspan does it itself, called as ssh is: the user's choice, or an
// ssh that asks nothing.
std::string RemoteShellText(const ClusterOptions& options, const Environment& environment);

// The hosts of the plan's agents, for a message: "this host, n1 and n2".
std::string HostsText(const Plan& plan);
// True for a line in which an agent tells the user what the start of the run waits for.
bool IsOfWaiting(std::string_view line);
// The host of the plan that a line names, as a word; "" when none is.
std::string NamedHost(std::string_view line, const Plan& plan);
// True for a line that ssh writes when it does not reach a host.
bool IsOfSsh(std::string_view line);
// Which hosts cannot be reached, and why, from lines of what reaches them: for each host that a
// line names, its first words. If none is named, the first line, for the plan's only other host or
// an unknown one. "" without lines.
std::string ExplainUnreached(const std::vector<std::string_view>& lines, const Plan& plan);

// kNotFound if agents of the plan are to be reached by a remote shell that cuspan names, and there
// is no such command.
Status CheckRemoteShell(const Plan& plan, const ClusterOptions& options,
                        const Environment& environment);

}  // namespace cuspan

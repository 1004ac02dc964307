// Words of command lines: what starts agents, and what an agent is told.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/cluster_options.h"
#include "launcher/environment.h"
#include "launcher/plan.h"

namespace cuspan {

struct AgentCommand {
  std::string path;                       // Of cuspan-agent on this host,
  std::string remote_path;                // and on all others.
  std::vector<std::string> home_options;  // Of the home agent alone.
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

// A command line that a shell reads as these words.
std::string QuoteForShell(const std::vector<std::string>& words);
// Words separated by blanks; "…" and '…' keep blanks.
std::vector<std::string> SplitWords(std::string_view text);

// What reaches other hosts where cuspan does it itself, called as ssh is: the user's choice, or an
// ssh that asks nothing.
std::string RemoteShellText(const ClusterOptions& options, const Environment& environment);

// The lines of a command's output without blanks around them; empty ones are left out.
std::vector<std::string_view> OutputLines(std::string_view text);
// The host of the plan that a line names; "" when none is.
std::string NamedHost(std::string_view line, const Plan& plan);

}  // namespace cuspan

// The mpirun that starts a run's agents: its command line, its environment, and
// what its output means when it fails. Pure; as Open MPI 4.1 and 5.0 behave.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

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

// The whole command line: the agents, then the lanes of each where it has some. `extra` are the
// user's additional arguments for mpirun; `settings` the variables passed to the agents on other
// hosts, by name, since others may read a command line.
std::vector<std::string> MpirunCommand(const Plan& plan, const AgentCommand& agent,
                                       const std::vector<std::string>& extra,
                                       const std::vector<std::string>& settings);

// kInvalid when the environment, and no option of mpirun, keeps it on this host, and agents are to
// run on others.
Status CheckReach(const Environment& environment, const Plan& plan,
                  const std::vector<std::string>& extra);

// Completes the environment of mpirun: the network layers (unless the user
// chose), permission to run as root, and an ssh that asks nothing and gives up
// soon, or, when all agents are on this node, none at all.
void AddMpirunSettings(Environment& environment, const Plan& plan,
                       const std::vector<std::string>& extra, bool root);

// Where an mpirun of that process id on this host may keep its temporary files, which stay when it
// is killed. `environment` is its own.
struct MpirunFolder {
  std::string path;
  bool in_own = false;  // The folder in which it lies is Open MPI's as well.
};
std::vector<MpirunFolder> MpirunFolders(const Environment& environment, std::string_view host,
                                        unsigned user, int pid);

// Whether an mpirun, or its daemon on another host, ended before it started anything because
// another one's end took away the folder that all of a user's share, or made it at the same moment:
// Open MPI makes and removes /tmp/ompi.HOST.UID without a lock (its issue 8510). The next try has
// it.
bool LostItsFolder(std::string_view output);

// A command line that a shell reads as these words.
std::string QuoteForShell(const std::vector<std::string>& words);
// Words separated by blanks; "…" and '…' keep blanks.
std::vector<std::string> SplitWords(std::string_view text);

// Whether mpirun has said that its processes have ended, or that it has no space for what they
// need to start: it is about to end as well, or hangs.
bool JobHasEnded(std::string_view output);

// One sentence from the output of an mpirun that failed: which host, and why.
std::string ExplainMpirun(std::string_view output, const Plan& plan);

}  // namespace cuspan

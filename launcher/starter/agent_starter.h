// Start of a run's agents, and properties of the process started by the launcher: the head agent
// itself, or an mpirun.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "launcher/host/environment.h"
#include "launcher/host/install_paths.h"
#include "launcher/run/cluster_options.h"
#include "launcher/run/plan.h"
#include "launcher/run/run_key.h"

namespace cuspan {

// Plan of the agents and the relay for these options. Completes the options and the environment
// from the surrounding batch job; fails if this fails.
Result<Plan> PlanRun(const InstallPaths& paths, ClusterOptions& options, Environment& environment);

// Hosts of the run with their addresses in encrypted networks; empty without --secure. `own_shell`:
// the user has named the remote shell and is responsible for it. kRefused or kNotFound names the
// host or the traffic without encryption, and the remedy.
Result<SecureHosts> CheckSecure(const Plan& plan, const ClusterOptions& options, bool own_shell,
                                const Environment& environment);

// Threads: one. A starter has a command, an environment for it, and output in lines.
class AgentStarter {
 public:
  // Creates the starter for these options; starts no process. An error names the missing part on
  // this node.
  static Result<std::unique_ptr<AgentStarter>> Make(const ClusterOptions& options,
                                                    const InstallPaths& paths, const RunKey& key);
  virtual ~AgentStarter() = default;

  const Plan& plan() const { return plan_; }
  const std::vector<std::string>& command() const { return command_; }
  const Environment& environment() const { return environment_; }
  // Error that forbids starting it, though its plan can be printed. The error includes the remedy.
  const Status& obstacle() const { return obstacle_; }

  // Called with the process of the command.
  virtual void Started(pid_t) {}
  // Called with the process of the head agent once connected.
  virtual void SetHeadPid(pid_t) {}
  // True if an output line is for the user at once. Other lines are kept for ExplainEnd. Lines
  // starting with "cuspan" are shown once the run is `ready`.
  virtual bool IsForUser(std::string_view line, bool ready) const = 0;
  // Reason for waiting until the head agent connects, to follow "waiting for ".
  virtual std::string WaitsFor() const = 0;
  // True if its output shows that it is about to end, or hangs. Argument: kept lines.
  virtual bool IsEnding(std::string_view) const { return false; }
  // True if it ended for a reason that will not recur.
  virtual bool MayRetryStart(std::string_view) const { return false; }
  // Reason for its end, in one sentence; `wait_status` from waitpid, empty while it runs.
  virtual std::string ExplainEnd(std::string_view kept, std::optional<int> wait_status) const = 0;
  // Removes files left by the process. Requires its end.
  virtual void RemoveTemporaryFiles() {}

 protected:
  AgentStarter(Plan plan, Environment environment)
      : plan_(std::move(plan)), environment_(std::move(environment)) {}

  Plan plan_;
  Environment environment_;
  std::vector<std::string> command_;

 private:
  Status obstacle_;
};

}  // namespace cuspan

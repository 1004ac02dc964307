// How the agents of a run are started, and what is known of the process by which they come: the
// head agent itself, or an mpirun.
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

// Which agents a run with these options has, and by which relay. Completes the options, and the
// environment, by what the job of a batch system around says; a failure is its own.
Result<Plan> PlanRun(const InstallPaths& paths, ClusterOptions& options, Environment& environment);

// With --secure, the hosts of the run with their addresses in networks that encrypt; none without.
// `own_shell`: the user has named the remote shell, and answers for it. kRefused or kNotFound says
// which host is reached otherwise, or what else would go past it, and what to do.
Result<SecureHosts> CheckSecure(const Plan& plan, const ClusterOptions& options, bool own_shell,
                                const Environment& environment);

// One thread. Each has a command to be executed in an environment; its output are lines.
class AgentStarter {
 public:
  // Of the agents that a run with these options has. Starts nothing. A failure says what is missing
  // on this node.
  static Result<std::unique_ptr<AgentStarter>> Make(const ClusterOptions& options,
                                                    const InstallPaths& paths, const RunKey& key);
  virtual ~AgentStarter() = default;

  const Plan& plan() const { return plan_; }
  const std::vector<std::string>& command() const { return command_; }
  const Environment& environment() const { return environment_; }
  // Why it must not be started, though it can be told what it would do; a failure says what to do.
  const Status& obstacle() const { return obstacle_; }

  // It runs as that process.
  virtual void Started(pid_t) {}
  // The head agent has come, and is that process.
  virtual void HomeIs(pid_t) {}
  // Whether a line of its output is for the user at once. The others are kept for ExplainEnd; those
  // that begin with "cuspan" are for the user when the run is `ready`.
  virtual bool IsForUser(std::string_view line, bool ready) const = 0;
  // What a run waits for until the head agent has come, to follow "waiting for ".
  virtual std::string WaitsFor() const = 0;
  // It has said that it is about to end, or hangs. `kept` are lines that are not for the user.
  virtual bool IsEnding(std::string_view) const { return false; }
  // It has ended for a reason that another try does not meet.
  virtual bool MayStartAgain(std::string_view) const { return false; }
  // Why it ended, in one sentence; `wait_status` as waitpid gives it, none while it lives.
  virtual std::string ExplainEnd(std::string_view kept, std::optional<int> wait_status) const = 0;
  // What it may have left. It is gone.
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

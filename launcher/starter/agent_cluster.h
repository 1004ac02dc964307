// The agents of a run, as their launcher sees them: started directly or by
// mpirun, connected by one socket to the head agent, ended with the run.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/status.h"
#include "common/unique_fd.h"
#include "launcher/host/app_process.h"
#include "launcher/host/ending_signals.h"
#include "launcher/host/install_paths.h"
#include "launcher/run/cluster_options.h"
#include "launcher/run/run_key.h"
#include "launcher/starter/agent_starter.h"
#include "protocol/channel/reception.h"

namespace cuspan {

// One thread. Destroying it ends the agents. `signals` outlives it.
class AgentCluster {
 public:
  static Result<std::unique_ptr<AgentCluster>> Start(const ClusterOptions& options,
                                                     const InstallPaths& paths, const RunKey& key,
                                                     const InheritedSignals& signals);
  ~AgentCluster();
  AgentCluster(const AgentCluster&) = delete;
  AgentCluster& operator=(const AgentCluster&) = delete;

  // Waits until the head agent has the run's devices, and says what it waits for. A signal by which
  // the user ends it ends the agents, and then this process as that signal does.
  Result<RunReady> WaitReady();
  // After WaitReady, of agents that only look: waits so long, and then asks what there is now.
  // Signals as in WaitReady, also between two of them.
  Result<RunReady> LookAgain(std::chrono::milliseconds pause);
  // The same when `fd` is readable.
  Result<RunReady> LookWhenReadable(int fd);
  // Called before a signal ends this process in one of these.
  void SetFarewell(std::function<void()> farewell) { farewell_ = std::move(farewell); }

  // To poll while the app runs: what the agents write, and the end of their process.
  int output_fd() const { return output_.get(); }
  int process_fd() const { return process_.get(); }
  // Passes on what the agents' own code has written for the user and keeps the rest for an
  // explanation.
  void ReadOutput();
  // After process_fd() became readable: why the agents ended, in one sentence.
  std::string ExplainEnd();

  // Asks what the agents saw until now. After WaitReady. kUnavailable: the head agent is gone.
  Status AskMetrics();
  // To poll for the answer.
  int home_fd() const { return home_ ? home_->fd() : -1; }
  // The answer to the last question, when all of it has come: one entry an agent that has answered.
  // kUnavailable: the head agent is gone, or says what it must not.
  Result<std::optional<std::vector<AgentMetrics>>> TakeMetrics();

  // Ends the run; the head agent's report of what each session did. kUnavailable when it gives
  // none.
  Result<RunStatistics> End();

 private:
  AgentCluster(std::unique_ptr<AgentStarter> starter, RunKey key, bool traced,
               const InheritedSignals& signals, Reception reception);
  Status Spawn();
  // All pieces of the report, until an empty one.
  Result<RunStatistics> ReceiveStatistics();
  // Whether they ended for a reason that another try does not meet.
  bool ShouldStartAgain();
  void PassOn(const std::string& line);
  // The head agent has come.
  void MeetHome();
  // After a while without an answer.
  // True if the starter goes on, though none of its processes for agents is left. A killed agent
  // can leave an mpirun that hangs in its own end (Open MPI 4.1, in pmix_rte_finalize).
  bool AgentsHaveEnded();
  void TellWhatIsWaitedFor();
  // What it has found, or why it has not.
  Result<RunReady> TakeReady(const Frame& frame);
  // Asks again when `fd` is readable, if it is one, or after `pause`, if it is not negative.
  Result<RunReady> Look(int fd, std::chrono::milliseconds pause);
  // Ends the agents, and then this process, if a signal has come.
  void TakeSignal(EndingSignals& signals);
  // The run may begin.
  void SetReady();
  // What was kept to explain an end that has not come.
  void PassOnKept();
  // Takes the head agent's connection, if it has come.
  Status Admit();
  // True when the agents' process is gone within `limit`.
  bool WaitGone(std::chrono::milliseconds limit);
  void Stop();

  const std::unique_ptr<AgentStarter> starter_;
  const RunKey key_;
  const bool traced_;
  const InheritedSignals& signals_;
  std::function<void()> farewell_;
  std::optional<EndingSignals> look_signals_;  // From the first Look on.
  int starts_ = 0;
  Reception reception_;
  std::optional<ControlSocket> home_;
  pid_t pid_ = -1;
  UniqueFd process_;
  int wait_status_ = 0;
  bool gone_ = false;
  bool had_agents_ = false;  // The starter has had a process for them.
  bool ready_ = false;
  bool waits_ = false;         // For devices that others have.
  bool told_waiting_ = false;  // The head agent has told the user what it waits for.
  UniqueFd output_;
  std::uint32_t question_ = 0;
  std::vector<AgentMetrics> answers_;
  std::string partial_line_;
  std::string kept_;
};

}  // namespace cuspan

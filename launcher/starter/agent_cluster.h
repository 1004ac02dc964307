// The launcher's side of a run's agents: started directly or by mpirun, connected by one socket to
// the head agent, ended with the run.
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

// Threads: one. The destructor ends the agents. `signals` must outlive it.
class AgentCluster {
 public:
  static Result<std::unique_ptr<AgentCluster>> Start(const ClusterOptions& options,
                                                     const InstallPaths& paths, const RunKey& key,
                                                     const InheritedSignals& signals);
  ~AgentCluster();
  AgentCluster(const AgentCluster&) = delete;
  AgentCluster& operator=(const AgentCluster&) = delete;

  // Blocks until the head agent has the run's devices, and prints the reason for a wait. An ending
  // signal of the user ends the agents, then this process by the same signal.
  Result<RunReady> WaitReady();
  // After WaitReady, for agents that only list GPUs: sleeps for `pause`, then queries them again.
  // Signals as in WaitReady, also between two calls.
  Result<RunReady> QueryAgain(std::chrono::milliseconds pause);
  // The same once `fd` is readable.
  Result<RunReady> QueryWhenReadable(int fd);
  // Called before a signal ends this process in one of these functions.
  void SetFarewell(std::function<void()> farewell) { farewell_ = std::move(farewell); }

  // Descriptors to poll while the program runs: the agents' output, and the end of their process.
  int output_fd() const { return output_.get(); }
  int process_fd() const { return process_.get(); }
  // Passes lines of the agents for the user on, and keeps the rest for ExplainEnd.
  void ReadOutput();
  // The reason for the agents' end, in one sentence. Requires process_fd() readable.
  std::string ExplainEnd();

  // Requests the agents' metrics up to now. Requires WaitReady. kUnavailable: the head agent is
  // gone.
  Status AskMetrics();
  // Descriptor to poll for the answer.
  int head_fd() const { return head_ ? head_->fd() : -1; }
  // The answer to the last request once complete: one entry per agent that answered. kUnavailable:
  // the head agent is gone, or its message is invalid.
  Result<std::optional<std::vector<AgentMetrics>>> ReceiveMetrics();

  // Ends the run. Returns the head agent's report of all sessions; kUnavailable without a report.
  Result<RunStatistics> End();

 private:
  AgentCluster(std::unique_ptr<AgentStarter> starter, RunKey key, bool traced,
               const InheritedSignals& signals, Reception reception);
  Status Spawn();
  // Receives the pieces of the report, until an empty one.
  Result<RunStatistics> ReceiveStatistics();
  // True if the agents ended for a reason that will not recur.
  bool ShouldRetryStart();
  void PassOn(const std::string& line);
  // Called with the first message of the head agent.
  void MeetHead();
  // True if the starter still runs, but none of its child processes. A killed agent can leave an
  // mpirun that hangs at its end (Open MPI 4.1, in pmix_rte_finalize).
  bool AgentsHaveEnded();
  void ReportWaiting();
  // The devices found, or the reason for failure.
  Result<RunReady> ReceiveReady(const Frame& frame);
  // Queries again when `fd` is readable (-1: none), or after `pause` (negative: never).
  Result<RunReady> Query(int fd, std::chrono::milliseconds pause);
  // If a signal is pending, ends the agents and then this process.
  void HandleSignal(EndingSignals& signals);
  // Called when the run may begin.
  void SetReady();
  // Passes on lines kept for ExplainEnd, now not needed for it.
  void PassOnKept();
  // Accepts the head agent's connection, if pending.
  Status Admit();
  // True if the agents' process ends within `limit`.
  bool WaitGone(std::chrono::milliseconds limit);
  void Stop();

  const std::unique_ptr<AgentStarter> starter_;
  const RunKey key_;
  const bool traced_;
  const InheritedSignals& signals_;
  std::function<void()> farewell_;
  std::optional<EndingSignals> query_signals_;  // Set by the first Look.
  int starts_ = 0;
  Reception reception_;
  std::optional<ControlSocket> head_;
  pid_t pid_ = -1;
  UniqueFd process_;
  int wait_status_ = 0;
  bool gone_ = false;
  bool had_agents_ = false;  // The starter had a child process.
  bool ready_ = false;
  bool waits_ = false;             // Devices are held by other runs.
  bool reported_waiting_ = false;  // The head agent has printed the reason for waiting.
  UniqueFd output_;
  std::uint32_t question_ = 0;
  std::vector<AgentMetrics> answers_;
  std::string partial_line_;
  std::string kept_;
};

}  // namespace cuspan

// The agents of a run, as their launcher sees them: started directly or by
// mpirun, connected by one socket to the home agent, ended with the run.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/status.h"
#include "common/unique_fd.h"
#include "launcher/app_process.h"
#include "launcher/gpu_wish.h"
#include "launcher/install_paths.h"
#include "launcher/plan.h"
#include "launcher/run_key.h"
#include "protocol/channel/reception.h"

namespace cuspan {

// What the user asked for, of `cuspan run` and `cuspan devices` alike.
struct ClusterOptions {
  std::vector<HostRequest> hosts;  // Empty: this node.
  GpuWish wish;                    // Which of their devices the run needs.
  std::string device = "auto";     // Driver: auto, cuda or soft.
  SameNode same_node = SameNode::kAuto;
  std::uint32_t lanes = 1;             // Of each node.
  std::vector<HostRequest> app_hosts;  // Where the app's processes may be, besides this node.
  std::string mpirun = "mpirun";
  std::vector<std::string> mpirun_arguments;
  RelayKind relay = RelayKind::kMpi;
  std::string remote_shell;   // How mpirun reaches other hosts; empty: as it does by itself.
  std::string remote_prefix;  // Where cuspan is installed on other hosts; empty: as here.
  std::string trace;          // The whole path of a file for a timeline of the run; empty: none.
};

// How the agents of a run are started.
struct AgentStart {
  Plan plan;
  std::vector<std::string> command;
  Environment environment;
};
// Starts nothing. A failure says what is missing on this node.
Result<AgentStart> PrepareAgents(const ClusterOptions& options, const InstallPaths& paths,
                                 const RunKey& key);

// One thread. Destroying it ends the agents. `signals` outlives it.
class AgentCluster {
 public:
  static Result<std::unique_ptr<AgentCluster>> Start(const ClusterOptions& options,
                                                     const InstallPaths& paths, const RunKey& key,
                                                     const InheritedSignals& signals);
  ~AgentCluster();
  AgentCluster(const AgentCluster&) = delete;
  AgentCluster& operator=(const AgentCluster&) = delete;

  // Waits until the home agent has the run's devices, and says what it waits for. A signal by which
  // the user ends it ends the agents, and then this process as that signal does.
  Result<RunReady> WaitReady();

  // To poll while the app runs: what the agents write, and the end of their process.
  int output_fd() const { return output_.get(); }
  int process_fd() const { return process_.get(); }
  // Passes on what the agents' own code has written for the user and keeps the rest for an
  // explanation.
  void ReadOutput();
  // After process_fd() became readable: why the agents ended, in one sentence.
  std::string ExplainEnd();

  // Ends the run; the home agent's report of what each session did. kUnavailable when it gives
  // none.
  Result<RunStatistics> End();

 private:
  AgentCluster(AgentStart start, RunKey key, bool traced, const InheritedSignals& signals,
               Reception reception);
  Status Spawn();
  // Whether they ended for a reason that another try does not meet.
  bool ShouldStartAgain();
  void PassOn(const std::string& line);
  // Takes the home agent's connection, if it has come.
  Status Admit();
  // True when the agents' process is gone within `limit`.
  bool WaitGone(std::chrono::milliseconds limit);
  void Stop();
  // What an mpirun that was killed can not remove itself: learned while the home agent runs, and
  // removed when all is over.
  void FindSharedMemory();
  void RemoveTemporaryFiles();

  const AgentStart start_;
  const RunKey key_;
  const bool traced_;
  const InheritedSignals& signals_;
  int starts_ = 0;
  Reception reception_;
  std::optional<ControlSocket> home_;
  pid_t pid_ = -1;
  UniqueFd process_;
  int wait_status_ = 0;
  bool gone_ = false;
  bool waits_ = false;                      // For devices that others have.
  std::string mpirun_folder_;               // Empty without mpirun.
  std::vector<std::string> shared_memory_;  // Files of MPI on this host.
  UniqueFd output_;
  std::string partial_line_;
  std::string kept_;
};

// This node's name.
std::string OwnHostName();

}  // namespace cuspan

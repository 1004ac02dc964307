// What a user asks of a run's agents.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/run/gpu_request.h"
#include "launcher/run/plan.h"
#include "launcher/run/secure_network.h"

namespace cuspan {

// What the user asked for, of `cuspan run` and `cuspan devices` alike.
struct ClusterOptions {
  std::vector<HostRequest> hosts;  // Empty: this node.
  GpuRequest request;              // Which of their devices the run needs.
  std::string device = "auto";     // Driver: auto, cuda or soft.
  SameNode same_node = SameNode::kAuto;
  std::uint32_t lanes = 1;             // Of each node.
  std::vector<HostRequest> app_hosts;  // Where the app's processes may be, besides this node.
  // Slurm places the app's processes on nodes of the job around, of its first component.
  bool app_in_job = false;
  std::string mpirun = "mpirun";
  std::vector<std::string> mpirun_arguments;
  std::optional<RelayKind> relay = RelayKind::kMpi;  // None: what suits (relay_choice.h).
  std::string remote_shell;   // How mpirun reaches other hosts; empty: as it does by itself.
  std::string remote_prefix;  // Where cuspan is installed on other hosts; empty: as here.
  SecurePolicy secure;
  std::string trace;  // The whole path of a file for a timeline of the run; empty: none.
};

}  // namespace cuspan

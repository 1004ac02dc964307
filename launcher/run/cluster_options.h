// User's options for the agents of a run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/run/gpu_request.h"
#include "launcher/run/plan.h"
#include "launcher/run/secure_network.h"

namespace cuspan {

// Options common to `cuspan run`, `cuspan devices` and others.
struct ClusterOptions {
  std::vector<HostRequest> hosts;  // Empty: this node.
  GpuRequest request;              // Request for some of their devices.
  std::string device = "auto";     // Driver: auto, cuda or soft.
  SameNode same_node = SameNode::kAuto;
  std::optional<std::uint32_t> lanes;  // Per node. None: chosen automatically (AutoLanes).
  // Possible hosts of the program's processes besides this node.
  std::vector<HostRequest> program_hosts;
  // Slurm places the program's processes, on nodes of the surrounding job's first component.
  bool program_in_job = false;
  std::string mpirun = "mpirun";
  std::vector<std::string> mpirun_arguments;
  std::optional<RelayKind> relay = RelayKind::kMpi;  // None: chosen automatically (relay_choice.h).
  std::string remote_shell;   // Command to reach other hosts; empty: mpirun's default.
  std::string remote_prefix;  // Prefix of cuspan on other hosts; empty: same as here.
  SecurePolicy secure;
  std::string files = "auto";        // Files of the GPUs' nodes: auto or off,
  std::string file_roots;            // and those that the program may name (ParseFileRoots).
  std::string file_memory = "auto";  // Bytes of files in page-locked memory per GPU, or auto.
  std::string trace;                 // Absolute path of the file for a timeline; empty: none.
};

}  // namespace cuspan

// The surrounding job of a batch system with its list of nodes in a file or a variable: PBS
// (OpenPBS, PBS Professional, Torque) and LSF. Names and formats come from the manuals. OpenPBS:
// qsub(1B), pbs_tmrsh(8B) and pbs_resources(7B). Torque: qsub(1B) and pbsdsh(1B). IBM Spectrum LSF
// 10.1: "Environment variable reference" and blaunch(8).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "launcher/host/environment.h"

namespace cuspan {

struct ListedNode {
  std::string name;
  // The job's GPUs on the node, numbered as by nvidia-smi, if there is a list of them.
  std::vector<std::uint32_t> gpus;

  bool operator==(const ListedNode&) const = default;
};

struct ListedJob {
  std::string name;               // "PBS job 12.server"
  std::vector<ListedNode> nodes;  // Each once, in the order of the list.
  bool lists_gpus = false;        // The job's GPUs are known, on all nodes.
  std::string request;            // Option for requesting GPUs for a job.
  // Commands for starting a process on another node, with or without a path; the first existing one
  // is used.
  std::vector<std::string> launchers;
};

// Nodes listed in `text`, one per line, repeated for each processor of the job. kInvalid for lines
// other than host names, and for an empty list; errors name `source`.
Result<std::vector<ListedNode>> ParseNodeLines(std::string_view text, std::string_view source);

// Nodes in the format of LSB_MCPU_HOSTS, "hostA 5 hostB 2".
Result<std::vector<ListedNode>> ParseHostCounts(std::string_view text);

// Adds GPUs to the nodes, from a file in the format of PBS_GPUFILE: "HOST-gpu0", one per line.
// kInvalid for other lines, and for hosts not in `nodes`.
Status AddGpuLines(std::string_view text, std::string_view source, std::vector<ListedNode>& nodes);

// Reads the job described by `environment`. kNotFound if nothing names its nodes; kInvalid and
// kUnavailable for a wrong description.
Result<ListedJob> ReadPbsJob(const Environment& environment);
Result<ListedJob> ReadLsfJob(const Environment& environment);

}  // namespace cuspan

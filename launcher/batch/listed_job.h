// The job around of a batch system that lists its nodes in a file or a variable: PBS (OpenPBS, PBS
// Professional, Torque) and LSF. Names and formats are those of the manuals: qsub(1B),
// pbs_tmrsh(8B) and pbs_resources(7B) of OpenPBS, qsub(1B) and pbsdsh(1B) of Torque, and
// "Environment variable reference" and blaunch(8) of IBM Spectrum LSF 10.1.
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
  // Those of the job, as nvidia-smi counts on that node, where a list of them is there.
  std::vector<std::uint32_t> gpus;

  bool operator==(const ListedNode&) const = default;
};

struct ListedJob {
  std::string name;               // "PBS job 12.server"
  std::vector<ListedNode> nodes;  // Each once, in the order of the list.
  bool lists_gpus = false;        // Which GPUs it has is known, of all nodes.
  std::string request;            // The option by which a job asks for GPUs.
  // Commands that start something on another node, in or outside PATH: the first that is there.
  std::vector<std::string> launchers;
};

// The nodes that stand in `text`, one a line and as often as the job has processors there. kInvalid
// for lines that are no host names, and for none; failures name `source`.
Result<std::vector<ListedNode>> ParseNodeLines(std::string_view text, std::string_view source);

// The same of LSB_MCPU_HOSTS, "hostA 5 hostB 2".
Result<std::vector<ListedNode>> ParseHostCounts(std::string_view text);

// Adds the GPUs that stand in the file of PBS_GPUFILE, "HOST-gpu0", one a line, to the nodes.
// kInvalid for other lines, and for hosts that are none of `nodes`.
Status AddGpuLines(std::string_view text, std::string_view source, std::vector<ListedNode>& nodes);

// The job that `environment` tells of. kNotFound: nothing names its nodes; kInvalid and
// kUnavailable say what is wrong with what does.
Result<ListedJob> ReadPbsJob(const Environment& environment);
Result<ListedJob> ReadLsfJob(const Environment& environment);

}  // namespace cuspan

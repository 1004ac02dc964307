// Runs inside jobs of batch systems: the one way in, and what the systems have in common.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "launcher/host/environment.h"
#include "launcher/host/install_paths.h"
#include "launcher/run/cluster_options.h"

namespace cuspan {

// Fills in what the user has left open, by the job around: the hosts, and how they are reached.
// Lets the agents see no GPUs that the job is known not to have. Outside of jobs nothing changes.
// kUnavailable when the job has no GPUs, or what tells of it is not what it should be; kInvalid for
// a wrong CUSPAN_BATCH, or a relay that the job has no way for. Where nothing tells of the job's
// nodes, a line says that this node alone is used.
Status UseBatchJob(const InstallPaths& paths, ClusterOptions& options, Environment& environment);

// --- For the files of each system

// kInvalid for a CUSPAN_BATCH that is not one of its values.
Status CheckBatchSetting(const Environment& environment);

// What becomes of a run in `job` ("Slurm job 7") whose nodes are not known because of `why`. For
// kNotFound it has this node alone, and a line says so, a quiet one if that is all of the job
// anyway; all else is kUnavailable.
Status WithoutNodes(std::string_view job, const Status& why, bool one_node);

// This node, as a plan calls it.
HostRequest OwnNode(std::uint32_t devices);

// Has agents on other nodes started by `shell`.
void ReachBy(const std::vector<std::string>& shell, ClusterOptions& options,
             Environment& environment);

// Whether there are some, and each is one of `all`.
bool AllAmong(const std::vector<std::uint32_t>& some, const std::vector<std::uint32_t>& all);
// As CUDA_VISIBLE_DEVICES has it: "0,2".
std::string NumbersText(const std::vector<std::uint32_t>& numbers);

}  // namespace cuspan

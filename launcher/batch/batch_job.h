// Runs inside jobs of batch systems: the entry point, and functions common to the systems.
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

// Sets options left open by the user from the surrounding batch job: the hosts, and the way to
// reach them. GPUs known not to belong to the job are hidden from the agents. Outside of jobs,
// nothing changes. kUnavailable if the job has no GPUs or its description is wrong. kInvalid for a
// wrong CUSPAN_BATCH, or a relay impossible in this job. If the job's nodes are unknown, a log line
// reports the use of this node only.
Status UseBatchJob(const InstallPaths& paths, ClusterOptions& options, Environment& environment);

// --- For the files of each system

// kInvalid for an unknown value of CUSPAN_BATCH.
Status CheckBatchSetting(const Environment& environment);

// Handles unknown nodes of `job` ("Slurm job 7"), `why` being the reason. For kNotFound, logs the
// use of this node only, at level info if `one_node` (nothing is lost), else as a warning. Any
// other reason: kUnavailable.
Status WithoutNodes(std::string_view job, const Status& why, bool one_node);

// This node, as named in a plan.
HostRequest OwnNode(std::uint32_t devices);

// Sets `shell` as the command that starts agents on other nodes.
void ReachBy(const std::vector<std::string>& shell, ClusterOptions& options,
             Environment& environment);

// True if `some` is not empty and all its elements are in `all`.
bool AllAmong(const std::vector<std::uint32_t>& some, const std::vector<std::uint32_t>& all);
// Text in the form of CUDA_VISIBLE_DEVICES: "0,2".
std::string NumbersText(const std::vector<std::uint32_t>& numbers);

}  // namespace cuspan

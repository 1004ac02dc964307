// A run inside a Slurm job: on the job's nodes, with the job's GPUs, its agents started by srun.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "launcher/batch/slurm_job.h"
#include "launcher/host/environment.h"
#include "launcher/host/install_paths.h"
#include "launcher/run/cluster_options.h"

namespace cuspan {

// True if `environment` is a Slurm job's, and CUSPAN_BATCH does not disable it.
bool InsideSlurmJob(const Environment& environment);

// Sets options left open by the user: the hosts, and the way to reach them. In a step with GPUs of
// its own, the run takes those of this node, unless CUSPAN_BATCH is "job". Hosts named by the user
// must be nodes of the job, and are limited to the job's GPUs. On this node, only GPUs of the job
// are visible to agents. If Slurm places the program's processes, there is an agent on each node.
// kUnavailable if the job has no GPUs, or Slurm does not answer. kInvalid for a wrong CUSPAN_BATCH,
// or a host outside the job. If Slurm's commands do not exist or do not know the job, a log line
// reports that only this node is used; hosts named by the user are then left unchanged.
Status UseSlurmJob(const InstallPaths& paths, ClusterOptions& options, Environment& environment);

// Pure: the same with Slurm's answers. `own_name` is Slurm's name of this host.
Status UseSlurmJob(const SlurmJob& job, std::string_view own_name, const InstallPaths& paths,
                   ClusterOptions& options, Environment& environment);

// --- Between the launcher and cuspan-slurm-shell

// Nodes with their GPUs: "n1=2.0.1@0,n2=0@1". The parts are the number of GPUs, their indices, and
// the component.
std::string SlurmNodesText(const std::vector<SlurmNode>& nodes);
// Inverse of SlurmNodesText. kInvalid for any other text.
Result<std::vector<SlurmNode>> ParseSlurmNodes(std::string_view text);

struct StepGpus {
  std::vector<std::string> options;  // Options of srun.
  std::string prefix;                // Prefix of the shell command.
};
// Options giving a step on one node of the job's `nodes` all of the job's GPUs there. Slurm 22.05
// limits a step of one node (both observed): --gres to the smallest number of GPUs on a node of the
// component, --gpus to the number on its first node. For more GPUs, the step requests none and sets
// CUDA_VISIBLE_DEVICES. This works only if Slurm does not restrict a step's devices.
StepGpus GpusForStep(const std::vector<SlurmNode>& nodes, const SlurmNode& node);

// Command line for running the shell command `command` on a node, as a separate step with the job's
// GPUs there, beside all other steps. `options` are further options of srun.
std::vector<std::string> SrunCommand(const std::vector<SlurmNode>& nodes, const SlurmNode& node,
                                     const std::vector<std::string>& options,
                                     const std::string& command);
// True for variables used as options by srun or by cuspan's plugin, except those that identify the
// job.
bool IsSrunOption(std::string_view variable);

}  // namespace cuspan

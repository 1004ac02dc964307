// A run inside a job of Slurm's: on the job's nodes, with the job's GPUs, its agents started by
// srun.
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

// Whether `environment` is that of a job, and CUSPAN_BATCH lets that count.
bool InsideSlurmJob(const Environment& environment);

// Fills in what the user has left open: the hosts, and how they are reached. In a step that has
// GPUs of its own those of this node are taken, unless CUSPAN_BATCH says "job". Of hosts that the
// user names, which must be nodes of the job, no other GPUs than the job's are left. Lets the
// agents see no GPUs of this node that the job does not have. Where Slurm places the program's
// processes, there is an agent on each of the nodes. kUnavailable when the job has no GPUs, or
// Slurm does not answer; kInvalid for a wrong CUSPAN_BATCH, and for a host that is not of the job.
// Where Slurm's commands are not, or do not know the job, a line says that this node alone is used,
// or named hosts are left as they are.
Status UseSlurmJob(const InstallPaths& paths, ClusterOptions& options, Environment& environment);

// Pure: the same with what Slurm says. `own_name` is this host's, as Slurm has it.
Status UseSlurmJob(const SlurmJob& job, std::string_view own_name, const InstallPaths& paths,
                   ClusterOptions& options, Environment& environment);

// --- Between the launcher and cuspan-slurm-shell

// How a step gets onto a node with its GPUs: "n1=2.0.1@0,n2=0@1", their number, which ones, and the
// component.
std::string SlurmNodesText(const std::vector<SlurmNode>& nodes);
// kInvalid for what that does not write.
Result<std::vector<SlurmNode>> ParseSlurmNodes(std::string_view text);

struct StepGpus {
  std::vector<std::string> options;  // Of srun.
  std::string prefix;                // Of the shell's command.
};
// How a step on one node of the job's `nodes` gets all GPUs that the job has there. Slurm 22.05
// gives a step of one node no more GPUs by --gres than the least that a node of the component has,
// and none by --gpus than its first node has (both seen). Beyond, the step asks for none and is
// told by their numbers, which does where Slurm does not keep steps from devices.
StepGpus GpusForStep(const std::vector<SlurmNode>& nodes, const SlurmNode& node);

// The command line that runs `command`, which a shell on the node reads, as a step of its own on
// that node: beside all other steps, with the job's GPUs of the node. `options` are more of srun's.
std::vector<std::string> SrunCommand(const std::vector<SlurmNode>& nodes, const SlurmNode& node,
                                     const std::vector<std::string>& options,
                                     const std::string& command);
// The variables that srun takes options from, its own and those of cuspan's plugin, without those
// that say which job it is for.
bool IsSrunOption(std::string_view variable);

}  // namespace cuspan

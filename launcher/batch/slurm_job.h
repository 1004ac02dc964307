// The surrounding Slurm job of a command: its nodes, and its GPUs on each.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "launcher/host/environment.h"

namespace cuspan {

struct SlurmNode {
  std::string name;
  std::uint32_t component = 0;  // Component of a heterogeneous job.
  std::uint32_t gpus = 0;
  // Indices of the GPUs, numbered as in CUDA_VISIBLE_DEVICES on that node; empty if Slurm does not
  // number them.
  std::vector<std::uint32_t> indices;

  bool operator==(const SlurmNode&) const = default;
};

struct SlurmJob {
  std::string id;  // The first component's, for a heterogeneous job.
  std::vector<SlurmNode> nodes;
  // Slurm allocates GPUs here (GresTypes). Otherwise a job has all GPUs of its nodes.
  bool counts_gpus = true;
  // A step is bound to processors unless it disables this.
  bool binds = false;
  // A process of the job cannot open other devices (ConstrainDevices), and numbers its own from 0.
  bool constrains = false;
};

// Expands a list of nodes such as "n[1-3,7],m1" into names.
using ExpandNodes = std::function<Result<std::vector<std::string>>(const std::string& list)>;

// Nodes of job `id`, or of all components of the heterogeneous job led by it. `text` is the output
// of `scontrol --details show job`. For the last task of a job array, this describes all other
// tasks as well. kInvalid if it names no nodes.
Result<std::vector<SlurmNode>> ParseSlurmJob(std::string_view text, std::string_view id,
                                             const ExpandNodes& expand);

// Words of a setting in the output of `scontrol show config`: "GresTypes               =
// gpu,shard".
std::vector<std::string_view> SlurmSetting(std::string_view text, std::string_view name);

// Numbers of a list such as "0,2-3"; kInvalid for anything else.
Result<std::vector<std::uint32_t>> ParseIndices(std::string_view list);

// Finds the element of `nodes` for a user's host name: the node's name, its short form, or a name
// of this host, with node `own_name`. Null if not found.
const SlurmNode* FindNode(const std::vector<SlurmNode>& nodes, std::string_view host,
                          std::string_view own_name);
// Slurm's name of this host: from the environment in a step, else the host's own name.
std::string OwnNodeName(const Environment& environment);

// Queries Slurm's commands about the job named in `environment`. kNotFound if they do not exist or
// do not know the job. kUnavailable for any other failure, such as no answer within `limit`.
Result<SlurmJob> AskSlurm(const Environment& environment,
                          std::chrono::milliseconds limit = std::chrono::seconds(20));

}  // namespace cuspan

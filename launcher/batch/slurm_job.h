// The job of Slurm's in which a command runs: its nodes, and the GPUs that it has on each.
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
  std::uint32_t component = 0;  // Of a heterogeneous job.
  std::uint32_t gpus = 0;
  // Which ones, as CUDA_VISIBLE_DEVICES counts on that node; empty where Slurm does not number
  // them.
  std::vector<std::uint32_t> indices;

  bool operator==(const SlurmNode&) const = default;
};

struct SlurmJob {
  std::string id;  // Of a heterogeneous job, that of the first component.
  std::vector<SlurmNode> nodes;
  // Slurm gives out GPUs here (GresTypes); else a job has all that its nodes have.
  bool counts_gpus = true;
  // A step is bound to processors, unless it asks for none of that.
  bool binds = false;
  // A process of the job cannot open other devices (ConstrainDevices), and counts its own from 0.
  bool constrains = false;
};

// Names of the nodes of a list such as "n[1-3,7],m1".
using ExpandNodes = std::function<Result<std::vector<std::string>>(const std::string& list)>;

// The nodes of job `id`, or of all components of the heterogeneous job that it leads, of what
// `scontrol --details show job` prints of it; for the last task of a job array that tells of all
// others as well. kInvalid when it names none.
Result<std::vector<SlurmNode>> ParseSlurmJob(std::string_view text, std::string_view id,
                                             const ExpandNodes& expand);

// The words of a setting that `scontrol show config` prints: "GresTypes               = gpu,shard".
std::vector<std::string_view> SlurmSetting(std::string_view text, std::string_view name);

// The numbers of a list such as "0,2-3"; kInvalid for anything else.
Result<std::vector<std::uint32_t>> ParseIndices(std::string_view list);

// The node that a user calls `host`, by its name, the short form of that, or as this host, whose
// node is `own_name`; null when there is none. It is one of `nodes`.
const SlurmNode* FindNode(const std::vector<SlurmNode>& nodes, std::string_view host,
                          std::string_view own_name);
// What Slurm calls this host: in a step by its environment, else by the host's own name.
std::string OwnNodeName(const Environment& environment);

// Asks Slurm about the job that `environment` names, by its commands. kNotFound: they are not
// there, or do not know the job; kUnavailable says what else failed, as when one of them does not
// answer within `limit`.
Result<SlurmJob> AskSlurm(const Environment& environment,
                          std::chrono::milliseconds limit = std::chrono::seconds(20));

}  // namespace cuspan

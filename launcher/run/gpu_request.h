// Which GPUs a run requests for: the same options for `cuspan run` and the head agent.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/allocator/policy.h"
#include "structs.gen.h"

namespace CLI {
class App;
}

namespace cuspan {

struct GpuRequest {
  std::optional<std::uint32_t> number;  // Without it: all that are free,
  bool all = false;                     // or all that there are.
  Policy policy = Policy::kLocalFirst;
  std::optional<std::uint32_t> wait_seconds;  // None: without limit; 0: not at all.
  std::uint64_t least_memory_bytes = 0;
  std::uint32_t least_capability = 0;  // 10 × major + minor.
  ShareTerms share;
  // Told by the launcher to the head agent:
  bool look = false;        // Nothing is wished for: only what there is, and who has it.
  std::uint64_t order = 0;  // When the run was started, in ns since 1970; 0: it starts now.
  std::string program;      // What it runs, for people.
  std::string job;          // Of Slurm's, which gave out the GPUs that there are; empty: none.
};

// The options as they are written.
struct GpuRequestTexts {
  std::string gpus, policy, wait, memory, capability;
  std::string share;  // "true" where it has no value.
  std::string priority, quota, limit, share_limit, memory_cap, kind;
  bool no_wait = false;
  // Of the program's process, as the launcher has it; without it, of this one.
  std::optional<std::int32_t> process_niceness;
};
void AddGpuRequestOptions(CLI::App& command, GpuRequestTexts& texts);
// Failures name the option. A run that shares its GPUs needs leases (CUSPAN_LEASES).
Result<GpuRequest> CheckGpuRequest(const GpuRequestTexts& texts);
// The options by which cuspan-agent learns of it, the launcher's own included.
std::vector<std::string> GpuRequestOptions(const GpuRequest& request);

// As --priority takes it: a name where there is one.
std::string PriorityText(std::int64_t niceness);
// As --kind takes it; empty where nothing is known.
const char* KindText(scheduling::Limits limits);

// The time as GpuRequest::order has it.
std::uint64_t RealTimeNow();

// "at least 40.0 GiB of memory and compute capability 9.0 or higher"; empty where nothing is
// required.
std::string RequirementText(std::uint64_t memory_bytes, std::uint32_t capability);

}  // namespace cuspan

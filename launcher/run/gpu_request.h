// A run's request for GPUs: the same options for `cuspan run` and the head agent.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/allocator/policy.h"
#include "launcher/text/option_values.h"
#include "structs.gen.h"

namespace cuspan {

struct GpuRequest {
  std::optional<std::uint32_t> number;  // Empty: all free GPUs,
  bool all = false;                     // or all existing ones.
  Policy policy = Policy::kLocalFirst;
  std::optional<std::uint32_t> wait_seconds;  // Empty: no limit; 0: no waiting.
  std::uint64_t least_memory_bytes = 0;
  std::uint32_t least_capability = 0;  // 10 × major + minor.
  ShareTerms share;
  // Set by the launcher for the head agent:
  bool look = false;        // Requests no GPUs, only a list of GPUs and holders.
  std::uint64_t order = 0;  // Start time of the run, in ns since 1970; 0: now.
  std::string program;      // Name of the program, for messages.
  std::string job;          // Slurm job that allocated the GPUs; empty: none.
};

// A number of bytes, with an optional suffix K, M, G or T (powers of 1024).
std::optional<std::uint64_t> ParseSize(std::string_view text);

// Options as written by the user.
struct GpuRequestTexts {
  std::string gpus, policy, wait, memory, capability;
  std::string share;  // "true" if given without a value.
  std::string priority, quota, limit, share_limit, memory_cap, kind;
  bool no_wait = false;
  // Niceness of the program's process, as known by the launcher; empty: this process's.
  std::optional<std::int32_t> process_niceness;
};
// Texts of a parsed command line; process_niceness stays empty.
GpuRequestTexts RequestTexts(const OptionValues& values);
// Errors name the option. Sharing GPUs needs leases (CUSPAN_LEASES).
Result<GpuRequest> CheckGpuRequest(const GpuRequestTexts& texts);
// Options that pass the request to cuspan-agent, including those set by the launcher.
std::vector<std::string> GpuRequestOptions(const GpuRequest& request);

// Value for --priority: a name if one exists.
std::string PriorityText(std::int64_t niceness);
// Value for --kind; empty if unknown.
const char* KindText(scheduling::Bottleneck bottleneck);

// Current time in the unit of GpuRequest::order.
std::uint64_t RealTimeNow();

// "at least 40.0 GiB of memory and compute capability 9.0 or higher"; empty without requirements.
std::string RequirementText(std::uint64_t memory_bytes, std::uint32_t capability);

}  // namespace cuspan

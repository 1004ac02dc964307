// Choice of a run's GPUs: pure functions of a pool, its leases and a request.
#pragma once

#include <optional>
#include <string_view>

#include "common/status.h"
#include "launcher/allocator/inventory.h"

namespace cuspan {

// Preference among all choices allowed by a request.
enum class Policy {
  kLocalFirst,  // GPUs of the program's host, then of the fewest other hosts, packed.
  kPack,        // The fewest hosts, then the fullest ones, then the slowest sufficient ones.
  kSpread,      // The fewest GPUs per host: most network bandwidth per GPU.
  kFastest,     // The highest sum of speeds.
  kPair,        // GPUs with one run of the other kind, then as kLocalFirst.
};

// Parses "local-first", "pack", "spread", "fastest" or "pair".
Result<Policy> ParsePolicy(std::string_view text);
const char* PolicyName(Policy policy);

// Limit of a host without one.
inline constexpr std::uint32_t kUnlimited = ~std::uint32_t{0};

struct AllocationRequest {
  enum class Amount {
    kNumber,   // Exactly `number`.
    kAll,      // All fitting GPUs, at once.
    kAllFree,  // All free fitting GPUs; at least one.
  };
  Amount amount = Amount::kNumber;
  std::uint32_t number = 1;
  Policy policy = Policy::kLocalFirst;
  std::optional<std::uint32_t> home;  // Host of the program, if it is in the pool.
  std::uint64_t least_memory_bytes = 0;
  std::uint32_t least_capability = 0;  // Unit: PoolGpu::capability.
  // Resource limiting the kernels of a sharing run.
  scheduling::Bottleneck kind = scheduling::Bottleneck::kUnknown;
  std::vector<std::uint32_t> host_limits;  // Maximum GPUs by host; empty: no limits.
};

struct Decision {
  enum class Verdict {
    kChosen,
    kNotNow,  // Possible once other runs give GPUs back or leave the queue.
    kNever,   // Impossible even with all GPUs free.
  };
  Verdict verdict = Verdict::kNever;
  std::vector<std::uint32_t> gpus;  // The choice, in the order of the pool.
  std::uint32_t fitting = 0;        // Maximum for the request with all GPUs free.
  std::uint32_t available = 0;      // Maximum at this moment.
};

// True if the GPU meets the request.
inline bool Fits(const PoolGpu& gpu, const AllocationRequest& request) {
  return gpu.usable && gpu.memory_bytes >= request.least_memory_bytes &&
         gpu.capability >= request.least_capability;
}

// Decides. Time is linear in the number of GPUs, plus sorting the hosts with free ones. For several
// GPUs with shared ones among them, also sorting the GPUs.
Decision Decide(const GpuPool& pool, const PoolLeases& leases, const AllocationRequest& request);

}  // namespace cuspan

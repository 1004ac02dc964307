// Which GPUs a run gets: pure functions of a pool, its leases and a request.
#pragma once

#include <optional>
#include <string_view>

#include "common/status.h"
#include "launcher/allocator/inventory.h"

namespace cuspan {

// What to prefer among all choices that a request allows.
enum class Policy {
  kLocalFirst,  // The own host's GPUs, then those of the fewest other hosts, packed.
  kPack,        // The fewest hosts, of such choices the fullest ones, of such the slowest that do.
  kSpread,      // As few as possible of any one host: most of its network for each GPU.
  kFastest,     // The highest sum of speeds.
  kPair,        // Those whose one run goes well with this one; of such choices as kLocalFirst.
  kFirstFit,    // The first in the order of the pool: a yardstick for the others.
};

// Reads "local-first", "pack", "spread", "fastest", "pair" or "first-fit".
Result<Policy> ParsePolicy(std::string_view text);
const char* PolicyName(Policy policy);

// No limit of a host.
inline constexpr std::uint32_t kUnlimited = ~std::uint32_t{0};

struct AllocationRequest {
  enum class Amount {
    kNumber,   // Exactly `number`.
    kAll,      // All that there are and that fit, at once.
    kAllFree,  // All that are free and fit; at least one.
  };
  Amount amount = Amount::kNumber;
  std::uint32_t number = 1;
  Policy policy = Policy::kLocalFirst;
  std::optional<std::uint32_t> home;  // The host of the program, if it is one of the pool's.
  std::uint64_t least_memory_bytes = 0;
  std::uint32_t least_capability = 0;  // As PoolGpu has it.
  // Of a run that shares: what limits its kernels.
  scheduling::Limits kind = scheduling::Limits::kUnknown;
  std::vector<std::uint32_t> limits;  // By host: at most so many of it; empty: no limits.
};

struct Decision {
  enum class Verdict {
    kChosen,
    kNotNow,  // It could be met if others gave GPUs back, or went ahead in the queue.
    kNever,   // Not even if all GPUs were free.
  };
  Verdict verdict = Verdict::kNever;
  std::vector<std::uint32_t> gpus;  // What was chosen, in the order of the pool.
  std::uint32_t fitting = 0;        // How many the request could have at most, all being free.
  std::uint32_t available = 0;      // And how many at this moment.
};

// Whether the request may have this GPU at all.
inline bool Fits(const PoolGpu& gpu, const AllocationRequest& request) {
  return gpu.usable && gpu.memory_bytes >= request.least_memory_bytes &&
         gpu.capability >= request.least_capability;
}

// Decides. Time grows with the number of GPUs, and with sorting the hosts that have free ones; for
// several GPUs of which some are shared, also with sorting the GPUs.
Decision Decide(const GpuPool& pool, const PoolLeases& leases, const AllocationRequest& request);

}  // namespace cuspan

// Order of GPUs for a sharing run, used if its policy has no preference. Pure.
//
// An unused GPU comes before a shared one. Shared GPUs are ordered by fewer runs, then less
// promised time, then more free memory. Policy pack reverses this order, to leave GPUs to others.
// Policy pair compares classes first, in this order:
//   0  one run, limited by the other resource
//   1  one run; the limit of it or of this run is unknown
//   2  no run
//   3  one run, limited by the same resource
//   4  several runs; a pair would be chosen among them
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/scheduling/pairs.h"
#include "launcher/allocator/inventory.h"
#include "launcher/allocator/policy.h"

namespace cuspan {

// The lowest rank is preferred. From the top: 8 bits of class, 8 of the number of runs, 16 of the
// promised part of the time, and 32 decreasing with the free memory in MiB.
using LoadRank = std::uint64_t;

// Number of classes of GPUs; policies other than pair use only the first.
inline constexpr std::uint32_t kPairClasses = 5;
// The lowest rank of a class.
constexpr LoadRank FirstOfClass(std::uint32_t number) { return LoadRank{number} << 56; }
constexpr std::uint32_t ClassOf(LoadRank rank) { return static_cast<std::uint32_t>(rank >> 56); }
// Number of runs in a rank of the first class.
constexpr std::uint64_t RunsOf(LoadRank rank) { return rank >> 48; }

inline std::uint32_t PairClassOf(const GpuLoad& load, scheduling::Bottleneck kind) {
  using scheduling::Bottleneck;
  if (load.runs == 0) return 2;
  if (load.runs > 1) return kPairClasses - 1;
  const auto has = [&load](Bottleneck bottleneck) {
    return load.kinds[static_cast<std::size_t>(bottleneck)] != 0;
  };
  if (kind == Bottleneck::kUnknown || has(Bottleneck::kUnknown)) return 1;
  return has(kind) ? 3 : 0;
}

// Rank of a GPU with this load, for a run with kernels limited by `kind`. Inline: a decision calls
// it thousands of times.
inline LoadRank RankOf(const PoolGpu& gpu, const GpuLoad& load, Policy policy,
                       scheduling::Bottleneck kind) {
  LoadRank rank = 0;
  // Unused GPUs all have rank 0: the request already states the memory needed.
  if (load.runs != 0) {
    const std::uint64_t free =
        (gpu.memory_bytes - std::min(gpu.memory_bytes, load.memory_bytes)) >> 20;
    rank = LoadRank{std::min(load.runs, 0xffU)} << 48 |
           LoadRank{std::min(load.promised, 0xffffU)} << 32 |
           (0xffff'ffff - std::min<std::uint64_t>(free, 0xffff'ffff));
  }
  if (policy == Policy::kPack) return FirstOfClass(1) - 1 - rank;
  if (policy == Policy::kPair) rank |= FirstOfClass(PairClassOf(load, kind));
  return rank;
}

}  // namespace cuspan

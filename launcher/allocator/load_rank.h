// Which of two GPUs a run that shares would rather have, where its policy does not care. Pure.
//
// A GPU that nobody uses comes before one that is shared; of these, that with fewer runs, then that
// of whose time less is promised, then that with more free memory. Pack wants the opposite, since
// it leaves GPUs to others. Pair asks before all that how a GPU's run goes with this one: one that
// the other kind limits, one of which that is not known, none, one that the same limits; where
// there are several already, a pair is chosen among them, and these come last.
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/scheduling/pairs.h"
#include "launcher/allocator/inventory.h"
#include "launcher/allocator/policy.h"

namespace cuspan {

// The lowest is preferred. From the top: the class, 8 bits of the number of runs, 16 of the part of
// the time that is promised, and 32 of the memory that is not free.
using LoadRank = std::uint64_t;

// Classes of GPUs; only Pair has more than the first.
inline constexpr std::uint32_t kPairClasses = 5;
// The lowest rank of a class.
constexpr LoadRank FirstOfClass(std::uint32_t number) { return LoadRank{number} << 56; }
constexpr std::uint32_t ClassOf(LoadRank rank) { return static_cast<std::uint32_t>(rank >> 56); }
// The number of runs, of a rank of the first class.
constexpr std::uint64_t RunsOf(LoadRank rank) { return rank >> 48; }

inline std::uint32_t PairClassOf(const GpuLoad& load, scheduling::Limits kind) {
  using scheduling::Limits;
  if (load.runs == 0) return 2;
  if (load.runs > 1) return kPairClasses - 1;
  const auto has = [&load](Limits limits) {
    return load.kinds[static_cast<std::size_t>(limits)] != 0;
  };
  if (kind == Limits::kUnknown || has(Limits::kUnknown)) return 1;
  return has(kind) ? 3 : 0;
}

// Of a GPU with this load, for a run whose kernels `kind` limits. In the header, since a decision
// asks for thousands.
inline LoadRank RankOf(const PoolGpu& gpu, const GpuLoad& load, Policy policy,
                       scheduling::Limits kind) {
  LoadRank rank = 0;
  // Of GPUs that nobody uses the request says how much memory they need.
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

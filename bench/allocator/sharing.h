// A cluster whose runs share GPUs, or have them to themselves: what each way of leasing makes of
// the same runs. Everything comes from a seed; only the times that decisions take are real.
//
// Interactive runs use a part of a GPU in bursts, as long as they are there; batch runs use all
// that they get, until their work is done. What runs do on a GPU that they share is what was
// measured of two on an H200 (bench/README.md, common/scheduling/pairs.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bench/allocator/figures.h"
#include "common/scheduling/pairs.h"
#include "launcher/allocator/policy.h"

namespace cuspan::bench::allocator {

struct SharingOptions {
  std::uint32_t nodes = 1000;
  std::uint32_t gpus_per_node = 8;
  std::uint32_t runs = 40'000;
  double load = 1;             // Runs at a time, on average, for each GPU, if each had its own.
  double mean_seconds = 3600;  // Of a run that has a GPU to itself; exponentially distributed.
  std::uint64_t seed = 1;
};

// A run of one GPU, the same for every way of leasing.
struct SharedRun {
  double arrival = 0;
  bool interactive = false;
  double seconds = 0;  // That it is there, or that its work takes alone.
  double part = 1;     // Of the GPU's time that it uses: its quota, if it is interactive.
  std::uint64_t memory_bytes = 0;  // Kept for it.
  scheduling::Limits kind = scheduling::Limits::kUnknown;
};

struct SharedWorkload {
  GpuPool pool;
  std::vector<SharedRun> runs;
};

// GPUs of 80 GiB, all alike. Six tenths of the runs are interactive: 5 to 30 % of a GPU, and 4, 8,
// 16 or 24 GiB. The others are batch runs of 8, 16, 32 or 64 GiB. Compute limits as many as memory;
// of a tenth nothing is known. They come from machines without GPUs. At the start as many arrive as
// there are at a time, which may be as long as any: how long a run will take does not depend on how
// long it is there already.
SharedWorkload MakeSharedWorkload(const SharingOptions& options);

struct Leasing {
  const char* name;
  std::uint32_t most_runs;  // On a GPU.
  bool pairs;               // Two at the same time, not in turns.
  Policy policy;
};
std::span<const Leasing> Leasings();

// What is done on a GPU.
struct GpuRates {
  double batch = 0;  // By each batch run, of what it does alone.
  double work = 0;   // By all, of what one that never pauses does alone.
  double busy = 0;   // The part of the time in which the GPU has work.
};
GpuRates RatesOf(std::span<const SharedRun* const> runs, bool pairs);

// Of the time from the arrival of half of the runs to that of the last; waits and slowdowns are of
// the runs that arrived in it.
struct SharingOutcome {
  const Leasing* leasing = nullptr;
  double load = 0;
  DecisionFigures decisions;
  double utilisation = 0;              // GpuRates::busy and
  double work = 0;                     // work, the mean of all GPUs.
  double wait_mean = 0, wait_p95 = 0;  // Seconds.
  double completed_per_hour = 0;
  double batch_slowdown = 0;  // Time on the GPU against that alone, mean of the batch runs.
};
SharingOutcome SimulateSharing(const SharedWorkload& workload, const Leasing& leasing);

}  // namespace cuspan::bench::allocator

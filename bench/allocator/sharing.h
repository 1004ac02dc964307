// Simulation of a cluster with shared or exclusive GPUs: results of each way of leasing for the
// same runs. Everything is derived from a seed; only the times of decisions are real.
//
// Interactive runs use a part of a GPU in bursts, for a fixed time. Batch runs use all they get,
// until their work is done. Rates of runs sharing a GPU are those measured for two runs on an H200
// (bench/README.md, common/scheduling/pairs.h).
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
  double load = 1;             // Mean number of runs per GPU, if each had its own.
  double mean_seconds = 3600;  // Time of a run alone on a GPU; exponentially distributed.
  std::uint64_t seed = 1;
};

// A run with one GPU, identical for every way of leasing.
struct SharedRun {
  double arrival = 0;
  bool interactive = false;
  double seconds = 0;              // Interactive: duration. Batch: time of its work alone.
  double part = 1;                 // Fraction of GPU time used; the quota of an interactive run.
  std::uint64_t memory_bytes = 0;  // Reserved memory.
  scheduling::Bottleneck kind = scheduling::Bottleneck::kUnknown;
};

struct SharedWorkload {
  GpuPool pool;
  std::vector<SharedRun> runs;
};

// Identical GPUs of 80 GiB. 60% of the runs are interactive, with 5 to 30% of a GPU and 4, 8, 16 or
// 24 GiB. The others are batch runs of 8, 16, 32 or 64 GiB. 45% are compute-bound, 45%
// memory-bound, 10% unknown. All come from machines without GPUs. The runs of the steady state
// arrive at the start. Their times have the same distribution, because an exponential distribution
// has no memory.
SharedWorkload MakeSharedWorkload(const SharingOptions& options);

struct Leasing {
  const char* name;
  std::uint32_t most_runs;  // Per GPU.
  bool pairs;               // Two runs execute together, without time slices.
  Policy policy;
};
std::span<const Leasing> Leasings();

// Rates of work on a GPU.
struct GpuRates {
  double batch = 0;  // Each batch run's rate; 1 if alone.
  double work = 0;   // All runs together; 1 for one always busy.
  double busy = 0;   // Fraction of time with work on the GPU.
};
GpuRates RatesOf(std::span<const SharedRun* const> runs, bool pairs);

// Results for the period from the arrival of half of the runs to the last arrival. Waits and
// slowdowns are those of runs arriving in it.
struct SharingOutcome {
  const Leasing* leasing = nullptr;
  double load = 0;
  DecisionFigures decisions;
  double utilisation = 0;              // GpuRates::busy, mean of all GPUs.
  double work = 0;                     // GpuRates::work, mean of all GPUs.
  double wait_mean = 0, wait_p95 = 0;  // Seconds.
  double completed_per_hour = 0;
  double batch_slowdown = 0;  // Time on the GPU relative to alone, mean of batch runs.
};
SharingOutcome SimulateSharing(const SharedWorkload& workload, const Leasing& leasing);

}  // namespace cuspan::bench::allocator

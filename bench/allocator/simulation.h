// A cluster in which requests for GPUs arrive, wait in the product's order, and end: what each
// policy makes of it. Everything comes from a seed; only the times that decisions take are real.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/allocator/figures.h"
#include "launcher/allocator/policy.h"

namespace cuspan::bench::allocator {

struct SimulationOptions {
  std::uint32_t nodes = 1000;
  std::uint32_t gpus_per_node = 8;
  std::uint32_t requests = 100'000;
  double load = 0.9;           // GPUs wanted at a time, on average, of those that there are.
  double mean_seconds = 3600;  // That a request keeps its GPUs; exponentially distributed.
  std::uint64_t seed = 1;
};

// One request of the stream, the same for every policy.
struct SimulatedRequest {
  double arrival = 0;
  double seconds = 0;
  AllocationRequest request;
};

struct Workload {
  GpuPool pool;
  std::vector<SimulatedRequest> requests;
};

// Nodes of three kinds, four, four and two tenths of them, each faster and with more memory than
// the one before. Requests of 1 (half of them), 2, 4, 8, 16, 32 and 64 GPUs; three tenths need the
// memory of the second kind, one tenth that of the third; seven tenths come from a random node, the
// others from machines without GPUs.
Workload MakeWorkload(const SimulationOptions& options);

struct Outcome {
  Policy policy = Policy::kFirstFit;
  double load = 0;
  DecisionFigures decisions;
  // Of all GPUs, between the first arrival and the last.
  double utilisation = 0;
  double wait_mean = 0, wait_p95 = 0;  // Seconds.
  double hosts = 0;                    // Of a request, on average.
  // GPUs on the program's own node, of those that requests from nodes with GPUs got.
  double own = 0;
  // Of a host's network, for each GPU that is not on the program's own node.
  double link_share = 0;
  double speed = 0;  // Of the GPUs that requests got, against the mean of the pool.
};

Outcome Simulate(const Workload& workload, Policy policy);

}  // namespace cuspan::bench::allocator

// Simulation of a cluster: requests for GPUs arrive, wait in the product's order, and end. Yields
// the results of each policy. Everything is derived from a seed; only the times of decisions are
// real.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/allocator/figures.h"
#include "bench/allocator/first_fit.h"
#include "launcher/allocator/policy.h"

namespace cuspan::bench::allocator {

struct SimulationOptions {
  std::uint32_t nodes = 1000;
  std::uint32_t gpus_per_node = 8;
  std::uint32_t requests = 100'000;
  double load = 0.9;           // Mean number of requested GPUs, relative to all GPUs.
  double mean_seconds = 3600;  // Duration of a request; exponentially distributed.
  std::uint64_t seed = 1;
};

// One request, identical for every policy.
struct SimulatedRequest {
  double arrival = 0;
  double seconds = 0;
  AllocationRequest request;
};

struct Workload {
  GpuPool pool;
  std::vector<SimulatedRequest> requests;
};

// Nodes of three kinds (40, 40 and 20%), each faster and with more memory than the previous one.
// Requests for 1 (half of them), 2, 4, 8, 16, 32 and 64 GPUs. 30% need the memory of the second
// kind, 10% the memory of the third. 70% come from a random node, the others from machines without
// GPUs.
Workload MakeWorkload(const SimulationOptions& options);

struct Outcome {
  TestedPolicy policy;
  double load = 0;
  DecisionFigures decisions;
  // All GPUs, from the first arrival to the last.
  double utilisation = 0;
  double wait_mean = 0, wait_p95 = 0;  // Seconds.
  double hosts = 0;                    // Mean per request.
  // Fraction of GPUs on the program's own node, for requests from nodes with GPUs.
  double own = 0;
  // Fraction of a host's network per GPU outside the program's own node.
  double link_share = 0;
  double speed = 0;  // Mean speed of granted GPUs, relative to the pool.
};

Outcome Simulate(const Workload& workload, TestedPolicy policy);

}  // namespace cuspan::bench::allocator

// Summary values of the simulations, and times of their decisions.
#pragma once

#include <cstdint>
#include <vector>

#include "launcher/allocator/policy.h"

namespace cuspan::bench::allocator {

// 0 if `values` is empty.
double Mean(const std::vector<double>& values);
// Reorders the values.
double Quantile(std::vector<double>& values, double part);

struct DecisionFigures {
  std::uint64_t count = 0;
  double mean = 0, p99 = 0, max = 0;  // Seconds of processor time.
};

// Calls `decide` and measures the time of each decision. Threads: one.
class DecisionTimes {
 public:
  using Decider = Decision (*)(const GpuPool& pool, const PoolLeases& leases,
                               const AllocationRequest& request);
  explicit DecisionTimes(Decider decide = cuspan::Decide) : decide_(decide) {}
  Decision Decide(const GpuPool& pool, const PoolLeases& leases, const AllocationRequest& request);
  DecisionFigures Figures();

 private:
  const Decider decide_;
  std::vector<double> seconds_;
};

}  // namespace cuspan::bench::allocator

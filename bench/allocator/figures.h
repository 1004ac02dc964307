// What the simulations sum up, and how long the decisions take that they ask for.
#pragma once

#include <cstdint>
#include <vector>

#include "launcher/allocator/policy.h"

namespace cuspan::bench::allocator {

// 0 of no values.
double Mean(const std::vector<double>& values);
// Reorders the values.
double Quantile(std::vector<double>& values, double part);

struct DecisionFigures {
  std::uint64_t count = 0;
  double mean = 0, p99 = 0, max = 0;  // Processor seconds.
};

// Asks the policy, and measures how long that takes. One thread.
class DecisionTimes {
 public:
  Decision Decide(const GpuPool& pool, const PoolLeases& leases, const AllocationRequest& request);
  DecisionFigures Figures();

 private:
  std::vector<double> seconds_;
};

}  // namespace cuspan::bench::allocator

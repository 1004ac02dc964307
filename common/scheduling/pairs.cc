#include "common/scheduling/pairs.h"

#include <algorithm>

namespace cuspan::scheduling {
namespace {

constexpr double kComputeWithMemory = 1.3;
constexpr double kComputeWithCompute = 1.03;
constexpr double kMemoryWithMemory = 0.9;
constexpr double kNothingKnown = 1.0;
// Number of samples averaged.
constexpr double kMaxWeight = 50;
// A run is never faster beside another than alone. Larger sums are due to a wrong prediction.
constexpr double kMaxSum = 2;
constexpr double kDecayOfMemory = 0.83;

}  // namespace

double ExpectedSum(const PairRecord& record, Bottleneck a, Bottleneck b) {
  if (record.samples >= kEnoughSamples) return record.sum;
  if (a == Bottleneck::kUnknown || b == Bottleneck::kUnknown) return kNothingKnown;
  if (a != b) return kComputeWithMemory;
  return a == Bottleneck::kCompute ? kComputeWithCompute : kMemoryWithMemory;
}

void AddSample(PairRecord& record, double sum, std::uint64_t now) {
  if (!(sum >= 0)) return;
  record.samples = std::min(record.samples, kEnoughSamples * 1000) + 1;
  const double weight = std::min(static_cast<double>(record.samples), kMaxWeight);
  record.sum += (std::min(sum, kMaxSum) - record.sum) / weight;
  record.tried_at = now;
}

double GainOf(const PairChange& change) {
  const double decay = change.bottleneck == Bottleneck::kMemory ? kDecayOfMemory : 1;
  const double moved = std::min(change.change, change.rest);
  const double before = change.sum_before * change.rest;
  const double after = change.stays * decay * moved + change.sum_after * (change.rest - moved);
  return after - before;
}

double TimeOfChange(const ChangeCost& cost, double misses, double bytes_of_block, double blocks) {
  const double cycles = (cost.by_misses * misses + cost.base) * bytes_of_block * blocks;
  return cycles * cost.nanoseconds_a_cycle + cost.fixed;
}

}  // namespace cuspan::scheduling

// Decides which two runs of a shared GPU use it at the same time, and when to replace one of them
// by a better partner.
//
// Runs are compared by their normalised rates: the speed of a run's kernels beside another run,
// divided by their stand-alone speed. The best pair has the greatest sum. A pair with a sum below 1
// is slower than time-slicing. The decision to change follows the reference scheduler, with time
// instead of instructions: it compares the sum of both rates over their remaining time together,
// before and after. During the change itself only the staying run counts, at a decaying rate.
#pragma once

#include <array>
#include <cstdint>

namespace cuspan::scheduling {

inline constexpr std::uint32_t kMaxPairedRuns = 16;

// The bottleneck of a run's kernels.
enum class Bottleneck : std::uint8_t { kUnknown, kCompute, kMemory };
// Accepts any number from a message or a table.
constexpr Bottleneck BottleneckOf(std::uint8_t number) {
  return number <= static_cast<std::uint8_t>(Bottleneck::kMemory) ? static_cast<Bottleneck>(number)
                                                                  : Bottleneck::kUnknown;
}

// Measured rates of two runs together.
struct PairRecord {
  double sum = 0;  // Sum of their normalised rates: an average over the last samples.
  std::uint32_t samples = 0;
  std::uint64_t tried_at = 0;  // End of the last sample (ns).
  // The current sample: the time of both on the GPU, and the work completed by each, the
  // lower-numbered run first.
  double time = 0;
  std::array<double, 2> done = {0, 0};
  double longest = 0;  // Maximum of work completed minus time passed: the end of a long kernel.
};

// Samples needed for a reliable average. With fewer, the pair is still on trial.
inline constexpr std::uint32_t kEnoughSamples = 20;
// Time in ns until a slower pair is tried again: programs change their kernels.
inline constexpr std::uint64_t kTryAgain = 10'000'000'000;

// Expected sum of a pair: from measurements, else from the bottlenecks of both. (Measured on an
// H200: 1.24 to 1.35 for compute with memory, 1.00 to 1.03 for compute with compute, 0.67 to 0.98
// for memory with memory.)
double ExpectedSum(const PairRecord& record, Bottleneck a, Bottleneck b);

// Adds a sample and its time in ns.
void AddSample(PairRecord& record, double sum, std::uint64_t now);

// A possible replacement of a pair's second run.
struct PairChange {
  double stays = 1;       // Current normalised rate of the staying run.
  double sum_before = 1;  // Current sum of both runs.
  double sum_after = 1;   // Expected sum of the new pair.
  double rest = 0;        // Remaining time of the pair (ns).
  double change = 0;      // Duration of the change (ns); the staying run is alone.
  Bottleneck bottleneck = Bottleneck::kUnknown;  // Bottleneck of the staying run.
};

// Gain of the change, in ns of work; it pays if above 0. In the reference, the rate of a
// memory-bound staying run decays by a factor of 0.83 to 0.97 while the other's state is moved.
double GainOf(const PairChange& change);

// Time in ns to replace a run on the GPU, according to the reference. It is linear in the leaving
// run's blocks, and in its bytes of registers and shared memory per block. The slope depends on the
// L2 misses (0 to 1) of the staying run. `fixed` is added to each change.
struct ChangeCost {
  double by_misses = 0.09526;  // Cycles per byte, from the reference's fit, with `base`.
  double base = 0.01633;
  double nanoseconds_a_cycle = 1 / 1.9;
  double fixed = 180'000;  // Measured on an H200: switching to another process's work.
};
double TimeOfChange(const ChangeCost& cost, double misses, double bytes_of_block, double blocks);

}  // namespace cuspan::scheduling

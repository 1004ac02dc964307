// Which two of the runs that share a GPU use it at the same time, and when one of them is to make
// room for a better one.
//
// Runs are compared by their normalised rates: how fast the kernels of a run go beside another, as
// a part of how fast they go alone. The best pair is that with the greatest sum; a pair below 1 is
// worse than turns. The decision to change is that of the reference scheduler, in time instead of
// instructions: the sum of both rates over the time that they would still have together, before and
// after, where the time of the change itself counts for the run that stays alone, at a rate that
// decays.
#pragma once

#include <array>
#include <cstdint>

namespace cuspan::scheduling {

inline constexpr std::uint32_t kMaxPairedRuns = 16;

// What limits a run's kernels.
enum class Limits : std::uint8_t { kUnknown, kCompute, kMemory };
// As a message or a table has it, whatever lies there.
constexpr Limits LimitsOf(std::uint8_t number) {
  return number <= static_cast<std::uint8_t>(Limits::kMemory) ? static_cast<Limits>(number)
                                                              : Limits::kUnknown;
}

// How two runs go together, as measured.
struct PairRecord {
  double sum = 0;  // Of their normalised rates: an average over the last samples.
  std::uint32_t samples = 0;
  std::uint64_t tried_at = 0;  // When the last sample ended (ns).
  // The sample that is being taken: how long both were on the GPU, and what each did, the one with
  // the lower number first.
  double time = 0;
  std::array<double, 2> done = {0, 0};
  double longest = 0;  // By how much more was done than time passed: as a long kernel ends.
};

// So many samples are believed; fewer only after a trial.
inline constexpr std::uint32_t kEnoughSamples = 20;
// A pair that lost is tried again after this (ns): programs come to other kernels.
inline constexpr std::uint64_t kTryAgain = 10'000'000'000;

// What a pair is expected to have: by what was measured, else by what limits them. (Measured on an
// H200: 1.24 to 1.35 for compute with memory, 1.00 to 1.03 for compute with compute, 0.67 to 0.98
// for memory with memory.)
double ExpectedSum(const PairRecord& record, Limits a, Limits b);

// Adds a sample.
void AddSample(PairRecord& record, double sum, std::uint64_t now);

// What a change of the second run of a pair is worth.
struct PairChange {
  double stays = 1;       // The normalised rate of the run that stays, as it is.
  double sum_before = 1;  // Of both, as they are,
  double sum_after = 1;   // and expected of the new pair.
  double rest = 0;        // For how long they would still be together (ns).
  double change = 0;      // What the change takes (ns): until then the run that stays is alone.
  Limits limits = Limits::kUnknown;  // Of the run that stays.
};

// The gain of the change, in ns of work; it pays if that is above 0. The reference lets the rate of
// the run that stays decay while the other's state is moved, by 0.83 to 0.97 for one that memory
// limits.
double GainOf(const PairChange& change);

// How long it takes to have a run leave the GPU for another, by the reference: linear in the bytes
// of registers and shared memory of a block of the run that goes, and in its blocks; the slope, in
// the L2 misses of the one that stays (0 to 1). `fixed` is what each change takes besides.
struct ChangeCost {
  double by_misses = 0.09526;  // Cycles a byte, as the reference fitted them,
  double base = 0.01633;
  double nanoseconds_a_cycle = 1 / 1.9;
  double fixed = 180'000;  // Measured on an H200: the change to another process's work.
};
double TimeOfChange(const ChangeCost& cost, double misses, double bytes_of_block, double blocks);

}  // namespace cuspan::scheduling

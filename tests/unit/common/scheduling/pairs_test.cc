// Which runs use the GPU at the same time, on a clock of the test's own.
#include "common/scheduling/pairs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "common/scheduling/time_slices.h"

namespace cuspan::scheduling {
namespace {

constexpr std::uint64_t kMs = 1'000'000;

// A GPU on which runs of a kind go at a rate that depends on the kind of the one beside them.
class PairedGpu {
 public:
  // Limited by arithmetic; by memory; by memory, and with no room for another's blocks.
  enum Kind { kF, kC, kW };
  struct Run {
    Kind kind;
    double left = 0;    // Work on the GPU and in its queue (ns of its time alone).
    double done = 0;    // In all.
    double shared = 0;  // How long it was on the GPU beside another,
    double on_gpu = 0;  // and in all.
    bool wants = true;
    bool was_open = false;
  };
  PairedGpu() { turns.pairs = 1; }

  std::uint32_t Add(Kind kind, SharingRun terms = {}, bool known = true) {
    const auto number = static_cast<std::uint32_t>(runs.size());
    terms.present = 1;
    terms.known = known ? 1 : 0;
    terms.idle_since = now;
    turns.runs[number] = terms;
    runs.push_back({kind});
    return number;
  }
  static double RateBeside(Kind own, Kind other) {
    // As measured on an H200 (copies of 8 blocks on a processor beside multiplications of 2).
    if (own == kW && other == kF) return 0.56;
    if (own == kF && other == kW) return 0.25;
    if (own == kW || other == kW) return 0.51;
    if (own != other) return 0.65;
    return own == kC ? 0.4 : 0.515;
  }
  void Advance(std::uint64_t time, std::uint64_t step = kMs / 10) {
    for (const std::uint64_t end = now + time; now < end; now += step) {
      std::vector<std::size_t> there;
      for (std::size_t i = 0; i < runs.size(); ++i)
        if (turns.runs[i].open && runs[i].wants && (runs[i].was_open || !late)) there.push_back(i);
      EXPECT_LE(there.size(), 2U);
      for (const std::size_t i : there) {
        const double beside =
            there.size() == 2
                ? RateBeside(runs[i].kind, runs[there[0] == i ? there[1] : there[0]].kind)
                : 1;
        runs[i].done += beside * static_cast<double>(step);
        runs[i].on_gpu += static_cast<double>(step);
        if (there.size() == 2) runs[i].shared += static_cast<double>(step);
      }
      for (std::size_t i = 0; i < runs.size(); ++i) runs[i].was_open = turns.runs[i].open != 0;
      if (now >= next || there.empty() || late) Decide();
    }
    Decide();
  }
  void Decide() {
    for (std::size_t i = 0; i < runs.size(); ++i) {
      SharingRun& told = turns.runs[i];
      if (told.wants && !runs[i].wants) told.idle_since = now;
      told.wants = runs[i].wants ? 1 : 0;
      told.on_gpu = told.wants && told.open ? 1 : 0;
      told.busy = static_cast<std::uint64_t>(runs[i].on_gpu);
      const auto done = static_cast<std::uint64_t>(runs[i].done);
      told.done = done - done % std::max<std::uint64_t>(longest_kernel, 1);
      told.done_by = now + kMs / 5;
    }
    next = scheduling::Decide(turns, now);
    for (std::size_t i = 0; i < runs.size(); ++i)
      if (!turns.runs[i].open) turns.runs[i].on_gpu = 0;
  }
  double Done() const {
    double sum = 0;
    for (const Run& run : runs) sum += run.done;
    return sum;
  }

  TimeSlices turns;
  std::vector<Run> runs;
  std::uint64_t now = 1'000 * kMs;
  std::uint64_t next = 0;
  // Decisions are made all the time, also after a gate was opened and before work has begun.
  bool late = false;
  // What is done of a kernel is seen when it ends (ns).
  std::uint64_t longest_kernel = 0;
};

TEST(PairsTest, ComputeAndMemoryAreOnTheGpuTogether) {
  PairedGpu gpu;
  const std::uint32_t f = gpu.Add(PairedGpu::kF), c = gpu.Add(PairedGpu::kC);
  gpu.Advance(2'000 * kMs);
  EXPECT_GT(gpu.Done(), 1.25 * 2'000 * kMs);
  EXPECT_NEAR(gpu.runs[f].done, gpu.runs[c].done, 0.1 * gpu.runs[c].done);
}

TEST(PairsTest, WhatLosesTogetherTakesTurns) {
  PairedGpu gpu;
  gpu.Add(PairedGpu::kC), gpu.Add(PairedGpu::kC);
  gpu.Advance(1'000 * kMs);
  const double before = gpu.Done();
  gpu.Advance(2'000 * kMs);
  EXPECT_GT(gpu.Done() - before, 0.98 * 2'000 * kMs) << "once that is known";
  // It is tried again later: programs come to other kernels.
  gpu.Advance(10'000 * kMs);
  gpu.runs[0].kind = PairedGpu::kF;
  gpu.Advance(12'000 * kMs);
  const double changed = gpu.Done();
  gpu.Advance(2'000 * kMs);
  EXPECT_GT(gpu.Done() - changed, 1.25 * 2'000 * kMs);
}

TEST(PairsTest, WhatIsNotKnownIsLearntInTurns) {
  PairedGpu gpu;
  gpu.Add(PairedGpu::kF, {}, false), gpu.Add(PairedGpu::kC);
  gpu.Advance(500 * kMs);
  EXPECT_EQ(gpu.runs[0].shared, 0);
  EXPECT_GT(gpu.runs[0].done, 200 * kMs);
  EXPECT_GT(gpu.runs[1].done, 200 * kMs);
  gpu.turns.runs[0].known = 1;
  gpu.Advance(500 * kMs);
  EXPECT_GT(gpu.runs[0].shared, 400 * kMs);
}

TEST(PairsTest, OfThreeTheBestPairIsTogetherAndNoneStarves) {
  PairedGpu gpu;
  // Both of memory came first: first come, first served would keep them together.
  gpu.Add(PairedGpu::kC), gpu.Add(PairedGpu::kC);
  gpu.Advance(100 * kMs);
  gpu.Add(PairedGpu::kF);
  gpu.Advance(2'000 * kMs);
  const double before = gpu.Done();
  std::vector<double> done;
  for (const PairedGpu::Run& run : gpu.runs) done.push_back(run.done);
  gpu.Advance(3'000 * kMs);
  // In the order in which they came: 0.8 of the time for the two, at their rates.
  EXPECT_GT(gpu.Done() - before, 1.1 * 3'000 * kMs);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_GT(gpu.runs[i].done - done[i], 0.2 * 3'000 * kMs) << i;
}

// What goes well with one that waits does not go with one that it loses beside.
TEST(PairsTest, OneOfThreeIsAloneIfTheOthersAreBetterTogether) {
  for (const bool late : {false, true}) {
    PairedGpu gpu;
    gpu.late = late;
    SharingRun memory, compute;
    memory.limits = Limits::kMemory;
    compute.limits = Limits::kCompute;
    const std::uint32_t alone = gpu.Add(PairedGpu::kW, memory);
    const std::uint32_t c = gpu.Add(PairedGpu::kC, memory), f = gpu.Add(PairedGpu::kF, compute);
    gpu.Advance(2'000 * kMs);
    const std::vector<PairedGpu::Run> before = gpu.runs;
    const double done = gpu.Done();
    gpu.Advance(3'000 * kMs);
    // A third of the time for the first, two thirds at 1.3 for the others.
    EXPECT_GT(gpu.Done() - done, 1.17 * 3'000 * kMs) << late;
    EXPECT_NEAR(gpu.runs[alone].done - before[alone].done, 1'000 * kMs, 60 * kMs) << late;
    for (const std::uint32_t one : {c, f})
      EXPECT_NEAR(gpu.runs[one].done - before[one].done, 1'300 * kMs, 90 * kMs) << late;
  }
}

TEST(PairsTest, WhoComesToAPairThatIsKnownIsTried) {
  PairedGpu gpu;
  const std::uint32_t c = gpu.Add(PairedGpu::kC);
  gpu.Add(PairedGpu::kF);
  gpu.Advance(1'000 * kMs);
  const std::uint32_t late = gpu.Add(PairedGpu::kF);
  gpu.Advance(2'000 * kMs);
  EXPECT_GE(gpu.turns.RecordOf(c, late).samples, kEnoughSamples);
  EXPECT_NEAR(gpu.turns.RecordOf(c, late).sum, 1.3, 0.05);
}

// A kernel that is longer than a turn ends in one of several samples.
TEST(PairsTest, LongKernelsAreJudgedOverSeveralTurns) {
  PairedGpu gpu;
  gpu.longest_kernel = 25 * kMs;
  gpu.Add(PairedGpu::kC), gpu.Add(PairedGpu::kF), gpu.Add(PairedGpu::kF);
  gpu.Advance(10'000 * kMs);
  // Not for losers: of one sample or the other it ends in none, or in both.
  EXPECT_GT(gpu.turns.RecordOf(0, 1).sum, 1.05);
  EXPECT_GT(gpu.turns.RecordOf(0, 2).sum, 1.05);
}

TEST(PairsTest, PrioritiesHoldUnlessTheOtherIsLimited) {
  SharingRun low;
  low.niceness = 10;
  PairedGpu gpu;
  gpu.Add(PairedGpu::kF), gpu.Add(PairedGpu::kC, low);
  gpu.Advance(1'000 * kMs);
  EXPECT_EQ(gpu.runs[1].shared, 0);
  EXPECT_LT(gpu.runs[1].done, 0.1 * gpu.runs[0].done);
  low.limit = 750;
  PairedGpu limited;
  limited.Add(PairedGpu::kF), limited.Add(PairedGpu::kC, low);
  limited.Advance(1'000 * kMs);
  EXPECT_GT(limited.runs[1].shared, 900 * kMs) << "its limit is one of processors";
}

TEST(PairsTest, WhoComesBackFindsItsGateOpen) {
  PairedGpu gpu;
  gpu.Add(PairedGpu::kF), gpu.Add(PairedGpu::kC);
  gpu.Advance(500 * kMs);
  gpu.runs[1].wants = false;
  gpu.Advance(50 * kMs);
  EXPECT_TRUE(gpu.turns.runs[0].open);
  EXPECT_TRUE(gpu.turns.runs[1].open);
  // Unless another goes on the GPU in its place.
  gpu.Add(PairedGpu::kC);
  gpu.Advance(50 * kMs);
  EXPECT_TRUE(gpu.turns.runs[2].open);
  EXPECT_FALSE(gpu.turns.runs[1].open);
}

TEST(PairsTest, WithoutPairsOneIsOnTheGpu) {
  PairedGpu gpu;
  gpu.turns.pairs = 0;
  gpu.Add(PairedGpu::kF), gpu.Add(PairedGpu::kC);
  gpu.Advance(1'000 * kMs);
  EXPECT_EQ(gpu.runs[0].shared, 0);
}

TEST(PairsTest, WhoeverComesToAPlaceIsJudgedAnew) {
  PairedGpu gpu;
  gpu.Add(PairedGpu::kC), gpu.Add(PairedGpu::kC);
  gpu.Advance(1'000 * kMs);
  EXPECT_GE(gpu.turns.RecordOf(1, 0).samples, kEnoughSamples);
  gpu.turns.ForgetPairs(1);
  EXPECT_EQ(gpu.turns.RecordOf(0, 1).samples, 0U);
}

TEST(PairsTest, ExpectationsAreThoseOfTheKindUntilThereAreSamples) {
  PairRecord record;
  EXPECT_EQ(ExpectedSum(record, Limits::kUnknown, Limits::kMemory), 1.0);
  EXPECT_GT(ExpectedSum(record, Limits::kCompute, Limits::kMemory),
            ExpectedSum(record, Limits::kCompute, Limits::kCompute));
  EXPECT_LT(ExpectedSum(record, Limits::kMemory, Limits::kMemory), 1.0);
  for (std::uint32_t i = 0; i < kEnoughSamples; ++i) AddSample(record, 1.1, i);
  EXPECT_NEAR(ExpectedSum(record, Limits::kMemory, Limits::kMemory), 1.1, 1e-9);
  AddSample(record, std::numeric_limits<double>::quiet_NaN(), 100);
  EXPECT_EQ(record.samples, kEnoughSamples);
  AddSample(record, 1e9, 100);
  EXPECT_LT(record.sum, 1.2) << "more than two is a wrong prediction";
}

TEST(PairsTest, AChangePaysWhenItsGainIsMoreThanItsCost) {
  // 1.3 in place of 1.0 over 10 ms, of which 1 ms goes to the change: 0.5 of work is lost in that,
  // and 0.3 gained in each of the others.
  EXPECT_NEAR(GainOf({0.5, 1.0, 1.3, 10e6, 1e6, Limits::kUnknown}), 9e6 * 0.3 - 0.5e6, 1);
  EXPECT_LT(GainOf({0.5, 1.0, 1.3, 10e6, 7e6, Limits::kUnknown}), 0);
  EXPECT_LT(GainOf({0.5, 1.0, 1.0, 10e6, 1e6, Limits::kUnknown}), 0);
  // A run that memory limits loses while the other's state is moved.
  EXPECT_NEAR(GainOf({0.5, 1.0, 1.3, 10e6, 1e6, Limits::kUnknown}) -
                  GainOf({0.5, 1.0, 1.3, 10e6, 1e6, Limits::kMemory}),
              0.17 * 0.5e6, 1);
  // Never more than what is left.
  EXPECT_NEAR(GainOf({0.5, 1.0, 1.3, 1e6, 9e6, Limits::kUnknown}), -0.5e6, 1);
}

TEST(PairsTest, TheTimeOfAChangeIsTheReferences) {
  ChangeCost cost;
  cost.fixed = 0;
  cost.nanoseconds_a_cycle = 1;
  EXPECT_NEAR(TimeOfChange(cost, 0, 1000, 100), 1633, 1e-6);
  EXPECT_NEAR(TimeOfChange(cost, 0.5, 1000, 100), 1633 + 4763, 1e-6);
  cost.fixed = 7;
  EXPECT_NEAR(TimeOfChange(cost, 0, 0, 0), 7, 1e-9);
}

}  // namespace
}  // namespace cuspan::scheduling

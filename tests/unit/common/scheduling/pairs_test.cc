// Tests the choice of runs using the GPU together, on a simulated clock.
#include "common/scheduling/pairs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "common/scheduling/time_slices.h"

namespace cuspan::scheduling {
namespace {

constexpr std::uint64_t kMs = 1'000'000;

// A simulated GPU. The rate of a run depends on its kind and on the kind of its partner.
class PairedGpu {
 public:
  // Compute-bound; memory-bound; memory-bound and leaving no room for other blocks.
  enum Kind { kF, kC, kW };
  struct Run {
    Kind kind;
    double left = 0;    // Work queued and on the GPU (ns alone).
    double done = 0;    // Total (ns alone).
    double shared = 0;  // Time on the GPU with a partner (ns).
    double on_gpu = 0;  // Total time on the GPU (ns).
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
    // Measured on an H200: copies with 8 blocks per SM beside multiplications with 2.
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
  // True if decisions are made at each step, also between opening a gate and the start of work.
  bool late = false;
  // Length of a kernel (ns). Its work counts as done when it ends.
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
  // The pair is tried again later: programs change their kernels.
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
  // Both memory-bound runs are added first: first come, first served would keep them together.
  gpu.Add(PairedGpu::kC), gpu.Add(PairedGpu::kC);
  gpu.Advance(100 * kMs);
  gpu.Add(PairedGpu::kF);
  gpu.Advance(2'000 * kMs);
  const double before = gpu.Done();
  std::vector<double> done;
  for (const PairedGpu::Run& run : gpu.runs) done.push_back(run.done);
  gpu.Advance(3'000 * kMs);
  // First come, first served: the two would get 0.8 of the time, at their rates.
  EXPECT_GT(gpu.Done() - before, 1.1 * 3'000 * kMs);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_GT(gpu.runs[i].done - done[i], 0.2 * 3'000 * kMs) << i;
}

// A run does not share the GPU with a bad partner while its good partner waits.
TEST(PairsTest, OneOfThreeIsAloneIfTheOthersAreBetterTogether) {
  for (const bool late : {false, true}) {
    PairedGpu gpu;
    gpu.late = late;
    SharingRun memory, compute;
    memory.bottleneck = Bottleneck::kMemory;
    compute.bottleneck = Bottleneck::kCompute;
    const std::uint32_t alone = gpu.Add(PairedGpu::kW, memory);
    const std::uint32_t c = gpu.Add(PairedGpu::kC, memory), f = gpu.Add(PairedGpu::kF, compute);
    gpu.Advance(2'000 * kMs);
    const std::vector<PairedGpu::Run> before = gpu.runs;
    const double done = gpu.Done();
    gpu.Advance(3'000 * kMs);
    // The first has a third of the time, the others two thirds at 1.3.
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

// Kernels longer than a time slice end in only some of the samples.
TEST(PairsTest, LongKernelsAreJudgedOverSeveralTurns) {
  PairedGpu gpu;
  gpu.longest_kernel = 25 * kMs;
  gpu.Add(PairedGpu::kC), gpu.Add(PairedGpu::kF), gpu.Add(PairedGpu::kF);
  gpu.Advance(10'000 * kMs);
  // Neither pair counts as slower, though a sample may see both kernels end, or no end.
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
  // Unless another run uses the GPU instead.
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
  EXPECT_EQ(ExpectedSum(record, Bottleneck::kUnknown, Bottleneck::kMemory), 1.0);
  EXPECT_GT(ExpectedSum(record, Bottleneck::kCompute, Bottleneck::kMemory),
            ExpectedSum(record, Bottleneck::kCompute, Bottleneck::kCompute));
  EXPECT_LT(ExpectedSum(record, Bottleneck::kMemory, Bottleneck::kMemory), 1.0);
  for (std::uint32_t i = 0; i < kEnoughSamples; ++i) AddSample(record, 1.1, i);
  EXPECT_NEAR(ExpectedSum(record, Bottleneck::kMemory, Bottleneck::kMemory), 1.1, 1e-9);
  AddSample(record, std::numeric_limits<double>::quiet_NaN(), 100);
  EXPECT_EQ(record.samples, kEnoughSamples);
  AddSample(record, 1e9, 100);
  EXPECT_LT(record.sum, 1.2) << "more than two is a wrong prediction";
}

TEST(PairsTest, AChangePaysWhenItsGainIsMoreThanItsCost) {
  // 1.3 instead of 1.0 over 10 ms. The change takes 1 ms and loses 0.5 ms of work; each other ms
  // gains 0.3 ms.
  EXPECT_NEAR(GainOf({0.5, 1.0, 1.3, 10e6, 1e6, Bottleneck::kUnknown}), 9e6 * 0.3 - 0.5e6, 1);
  EXPECT_LT(GainOf({0.5, 1.0, 1.3, 10e6, 7e6, Bottleneck::kUnknown}), 0);
  EXPECT_LT(GainOf({0.5, 1.0, 1.0, 10e6, 1e6, Bottleneck::kUnknown}), 0);
  // A memory-bound run loses while the other's state is moved.
  EXPECT_NEAR(GainOf({0.5, 1.0, 1.3, 10e6, 1e6, Bottleneck::kUnknown}) -
                  GainOf({0.5, 1.0, 1.3, 10e6, 1e6, Bottleneck::kMemory}),
              0.17 * 0.5e6, 1);
  // Never more than the rest.
  EXPECT_NEAR(GainOf({0.5, 1.0, 1.3, 1e6, 9e6, Bottleneck::kUnknown}), -0.5e6, 1);
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

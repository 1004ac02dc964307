// The simulation behind `cuspan bench allocator --sharing`: progress of runs on a shared GPU, and
// invariants of the figures.
#include <gtest/gtest.h>

#include "bench/allocator/sharing.h"

namespace cuspan::bench::allocator {
namespace {

using scheduling::Bottleneck;

SharedRun Batch(Bottleneck kind = Bottleneck::kUnknown) {
  SharedRun run;
  run.kind = kind;
  return run;
}

SharedRun Interactive(double part, Bottleneck kind = Bottleneck::kUnknown) {
  SharedRun run;
  run.interactive = true;
  run.part = part;
  run.kind = kind;
  return run;
}

GpuRates Rates(const std::vector<SharedRun>& runs, bool pairs = false) {
  std::vector<const SharedRun*> pointers;
  for (const SharedRun& run : runs) pointers.push_back(&run);
  return RatesOf(pointers, pairs);
}

TEST(SharedRates, ARunAloneHasTheGpu) {
  EXPECT_EQ(Rates({}).busy, 0);
  EXPECT_EQ(Rates({Batch()}).batch, 1);
  EXPECT_EQ(Rates({Batch()}, true).busy, 1);
  EXPECT_EQ(Rates({Interactive(0.2)}).work, 0.2);
  EXPECT_EQ(Rates({Interactive(0.2)}).busy, 0.2);
}

TEST(SharedRates, InTurnsBatchRunsDivideWhatBurstsLeave) {
  EXPECT_DOUBLE_EQ(Rates({Batch(), Batch()}).batch, 0.49);
  EXPECT_DOUBLE_EQ(Rates({Batch(), Interactive(0.2), Interactive(0.3)}).batch, 0.48);
  EXPECT_DOUBLE_EQ(Rates({Batch(), Interactive(0.2)}).work, 0.98);
  EXPECT_DOUBLE_EQ(Rates({Interactive(0.2), Interactive(0.3)}).busy, 0.5);
}

TEST(SharedRates, APairDoesWhatItsKindsAllow) {
  const double sum = scheduling::ExpectedSum({}, Bottleneck::kCompute, Bottleneck::kMemory);
  EXPECT_DOUBLE_EQ(Rates({Batch(Bottleneck::kCompute), Batch(Bottleneck::kMemory)}, true).batch,
                   sum / 2);
  EXPECT_DOUBLE_EQ(Rates({Batch(Bottleneck::kCompute), Batch(Bottleneck::kMemory)}, true).work,
                   sum);
  // A pair slower than time slices is time-sliced.
  EXPECT_DOUBLE_EQ(Rates({Batch(Bottleneck::kMemory), Batch(Bottleneck::kMemory)}, true).batch,
                   0.49);
  EXPECT_DOUBLE_EQ(Rates({Batch(), Batch(Bottleneck::kMemory)}, true).batch, 0.49);
  const GpuRates beside =
      Rates({Batch(Bottleneck::kCompute), Interactive(0.2, Bottleneck::kMemory)}, true);
  EXPECT_GT(beside.batch, 0.8);
  EXPECT_LT(beside.batch, 1);
}

SharedWorkload SmallShared(double load) {
  SharingOptions options;
  options.nodes = 16;
  options.runs = 3000;
  options.load = load;
  return MakeSharedWorkload(options);
}

TEST(SharingSimulation, IsTheSameForOneSeed) {
  for (const Leasing& leasing : Leasings()) {
    const SharingOutcome first = SimulateSharing(SmallShared(2), leasing);
    const SharingOutcome second = SimulateSharing(SmallShared(2), leasing);
    EXPECT_EQ(first.wait_mean, second.wait_mean);
    EXPECT_EQ(first.completed_per_hour, second.completed_per_hour);
  }
}

TEST(SharingSimulation, NobodySharesWhereThereIsAlwaysAFreeGpu) {
  const SharedWorkload workload = SmallShared(0.4);
  for (const Leasing& leasing : Leasings()) {
    if (leasing.policy == Policy::kPair) continue;
    const SharingOutcome outcome = SimulateSharing(workload, leasing);
    EXPECT_EQ(outcome.wait_p95, 0) << leasing.name;
    EXPECT_NEAR(outcome.batch_slowdown, 1, 1e-6) << leasing.name;
    EXPECT_EQ(outcome.decisions.count, 3000U) << leasing.name;
  }
}

TEST(SharingSimulation, MoreRunsOnAGpuAreDoneWhereGpusAreFew) {
  const SharedWorkload workload = SmallShared(2);
  std::vector<SharingOutcome> outcomes;
  for (const Leasing& leasing : Leasings()) outcomes.push_back(SimulateSharing(workload, leasing));
  ASSERT_EQ(outcomes.size(), 5U);
  const SharingOutcome& exclusive = outcomes[0];
  EXPECT_NEAR(exclusive.batch_slowdown, 1, 1e-6);
  for (std::size_t i = 1; i < outcomes.size(); ++i) {
    EXPECT_GT(outcomes[i].completed_per_hour, 1.3 * exclusive.completed_per_hour) << i;
    EXPECT_LT(outcomes[i].wait_mean, exclusive.wait_mean / 2) << i;
    EXPECT_GT(outcomes[i].batch_slowdown, 1.1) << i;
    EXPECT_GT(outcomes[i].utilisation, exclusive.utilisation) << i;
  }
  EXPECT_GT(outcomes[2].completed_per_hour, outcomes[1].completed_per_hour) << "4 runs, 2 runs";
  EXPECT_GT(outcomes[3].work, outcomes[1].work) << "in pairs, in turns";
}

TEST(SharingSimulation, TooFewRunsHaveNoFigures) {
  SharingOptions options;
  options.nodes = 16;
  options.runs = 2;
  const SharingOutcome outcome = SimulateSharing(MakeSharedWorkload(options), Leasings().front());
  EXPECT_EQ(outcome.utilisation, 0);
}

}  // namespace
}  // namespace cuspan::bench::allocator

// The simulation behind `cuspan bench allocator`: invariants of its figures.
#include "bench/allocator/simulation.h"

#include <gtest/gtest.h>

namespace cuspan::bench::allocator {
namespace {

SimulationOptions Small(double load) {
  SimulationOptions options;
  options.nodes = 32;
  options.requests = 1500;
  options.load = load;
  return options;
}

TEST(Simulation, IsTheSameForOneSeed) {
  const Workload workload = MakeWorkload(Small(0.9));
  const Outcome first = Simulate(workload, Policy::kPack);
  const Outcome second = Simulate(MakeWorkload(Small(0.9)), Policy::kPack);
  EXPECT_EQ(first.wait_mean, second.wait_mean);
  EXPECT_EQ(first.utilisation, second.utilisation);
}

TEST(Simulation, NobodyWaitsWhereThereIsAlwaysRoom) {
  const Outcome outcome = Simulate(MakeWorkload(Small(0.001)), Policy::kLocalFirst);
  EXPECT_EQ(outcome.wait_p95, 0);
  EXPECT_EQ(outcome.decisions.count, 1500U);
  EXPECT_GT(outcome.own, 0.3);
}

TEST(FirstFit, TheFirstFitIsTheFirst) {
  GpuPool pool;
  pool.AddHost(std::vector<PoolGpu>(2));
  pool.AddHost(std::vector<PoolGpu>(3));
  PoolLeases leases(pool);
  leases.held[0] = 1;
  AllocationRequest request;
  request.number = 2;
  EXPECT_EQ(DecideFirstFit(pool, leases, request).gpus, (std::vector<std::uint32_t>{1, 2}));
  request.host_limits = {0, 2};
  EXPECT_EQ(DecideFirstFit(pool, leases, request).gpus, (std::vector<std::uint32_t>{2, 3}));
  leases.closed[1] = 1;
  EXPECT_EQ(DecideFirstFit(pool, leases, request).verdict, Decision::Verdict::kNotNow);
  request.number = 3;
  EXPECT_EQ(DecideFirstFit(pool, leases, request).verdict, Decision::Verdict::kNever);
}

TEST(FirstFit, IsAPolicyOfTheBenchmarkOnly) {
  EXPECT_EQ(*ParseTestedPolicy("first-fit"), kFirstFit);
  EXPECT_EQ(*ParseTestedPolicy("pack"), Policy::kPack);
  EXPECT_FALSE(ParseTestedPolicy("last-fit").ok());
  EXPECT_FALSE(ParsePolicy("first-fit").ok());
}

TEST(Simulation, PoliciesDoWhatTheyAreFor) {
  const Workload workload = MakeWorkload(Small(0.6));
  const Outcome first_fit = Simulate(workload, kFirstFit);
  EXPECT_LE(Simulate(workload, Policy::kPack).hosts, first_fit.hosts);
  EXPECT_GT(Simulate(workload, Policy::kLocalFirst).own, first_fit.own);
  EXPECT_GE(Simulate(workload, Policy::kSpread).link_share, first_fit.link_share);
  EXPECT_GT(Simulate(workload, Policy::kFastest).speed, first_fit.speed);
  EXPECT_GT(first_fit.utilisation, 0.4);
  EXPECT_LT(first_fit.utilisation, 0.8);
}

}  // namespace
}  // namespace cuspan::bench::allocator

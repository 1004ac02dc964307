// The policies, compared with their guarantees: properties over random pools, and the best of all
// choices.
#include "launcher/allocator/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "tests/unit/launcher/allocator/random_pools.h"

namespace cuspan {
namespace {

using testing::ElementsAre;
using Amount = AllocationRequest::Amount;
using Verdict = Decision::Verdict;

constexpr Policy kEvery[] = {Policy::kLocalFirst, Policy::kPack, Policy::kSpread, Policy::kFastest,
                             Policy::kPair};

GpuPool PoolOf(const std::vector<std::uint32_t>& counts) {
  GpuPool pool;
  for (const std::uint32_t count : counts) pool.AddHost(std::vector<PoolGpu>(count));
  return pool;
}

AllocationRequest WantedGpus(std::uint32_t number, Policy policy = Policy::kLocalFirst) {
  AllocationRequest request;
  request.number = number;
  request.policy = policy;
  return request;
}

TEST(LocalFirst, TakesTheOwnHostThenTheFewestOthers) {
  const GpuPool pool = PoolOf({2, 1, 4, 3});
  AllocationRequest request = WantedGpus(5);
  request.home = 0;
  EXPECT_THAT(Decide(pool, PoolLeases(pool), request).gpus, ElementsAre(0, 1, 7, 8, 9));
  request.number = 2;
  EXPECT_THAT(Decide(pool, PoolLeases(pool), request).gpus, ElementsAre(0, 1));
}

TEST(LocalFirst, TakesHostsThatAreEqualInTheirOrder) {
  GpuPool pool;
  pool.AddHost({{.speed = 9}});
  pool.AddHost({{.speed = 1}});
  EXPECT_THAT(Decide(pool, PoolLeases(pool), WantedGpus(1)).gpus, ElementsAre(0));
}

TEST(Pack, FillsTheFullestHost) {
  const GpuPool pool = PoolOf({4, 4, 4});
  PoolLeases leases(pool);
  leases.held[4] = leases.held[5] = 1;
  EXPECT_THAT(Decide(pool, leases, WantedGpus(2, Policy::kPack)).gpus, ElementsAre(6, 7));
  EXPECT_THAT(Decide(pool, leases, WantedGpus(3, Policy::kPack)).gpus, ElementsAre(0, 1, 2));
}

TEST(Pack, LeavesTheFasterToThoseWhoNeedThem) {
  GpuPool pool;
  pool.AddHost({{.speed = 9}, {.speed = 1}});
  pool.AddHost({{.speed = 5}, {.speed = 1}});
  EXPECT_THAT(Decide(pool, PoolLeases(pool), WantedGpus(1, Policy::kPack)).gpus, ElementsAre(3));
}

TEST(Spread, TakesFromAsManyHostsAsItCan) {
  const GpuPool pool = PoolOf({1, 4, 4});
  EXPECT_THAT(ByHost(pool, Decide(pool, PoolLeases(pool), WantedGpus(5, Policy::kSpread)).gpus),
              ElementsAre(std::pair(0, 1), std::pair(1, 2), std::pair(2, 2)));
}

TEST(Fastest, TakesTheFastestThatFit) {
  GpuPool pool;
  pool.AddHost({{.memory_bytes = 10, .speed = 1}, {.memory_bytes = 10, .speed = 8}});
  pool.AddHost({{.memory_bytes = 5, .speed = 9}, {.memory_bytes = 10, .speed = 5}});
  AllocationRequest request = WantedGpus(2, Policy::kFastest);
  EXPECT_THAT(Decide(pool, PoolLeases(pool), request).gpus, ElementsAre(1, 2));
  request.least_memory_bytes = 10;
  EXPECT_THAT(Decide(pool, PoolLeases(pool), request).gpus, ElementsAre(1, 3));
  request.host_limits = {0, kUnlimited};
  request.number = 1;
  EXPECT_THAT(Decide(pool, PoolLeases(pool), request).gpus, ElementsAre(3));
}

TEST(Fastest, PrefersTheOwnHostAmongEquals) {
  const GpuPool pool = PoolOf({1, 1});
  AllocationRequest request = WantedGpus(1, Policy::kFastest);
  request.home = 1;
  EXPECT_THAT(Decide(pool, PoolLeases(pool), request).gpus, ElementsAre(1));
}

TEST(Speed, IsCoresTimesClocks) {
  EXPECT_EQ(GpuSpeed(132, 90, 1980000, 2619000), 132.0 * 128 * 1980000 * 2619000);
  EXPECT_EQ(GpuSpeed(108, 80, 1410000, 0), 108.0 * 64 * 1410000);
}

TEST(Decide, TellsNotNowFromNever) {
  const GpuPool pool = PoolOf({2, 2});
  PoolLeases leases(pool);
  leases.held[0] = 1;
  EXPECT_EQ(Decide(pool, leases, WantedGpus(3)).verdict, Verdict::kChosen);
  EXPECT_EQ(Decide(pool, leases, WantedGpus(4)).verdict, Verdict::kNotNow);
  EXPECT_EQ(Decide(pool, leases, WantedGpus(5)).verdict, Verdict::kNever);
  EXPECT_EQ(Decide(pool, leases, WantedGpus(0)).verdict, Verdict::kNever);
  leases.closed[1] = 1;
  EXPECT_EQ(Decide(pool, leases, WantedGpus(2)).verdict, Verdict::kNotNow);
  EXPECT_EQ(Decide(pool, leases, WantedGpus(1)).verdict, Verdict::kChosen);
}

TEST(Decide, AllMeansAllThatThereAre) {
  const GpuPool pool = PoolOf({2, 2});
  PoolLeases leases(pool);
  AllocationRequest request;
  request.amount = Amount::kAll;
  EXPECT_THAT(Decide(pool, leases, request).gpus, ElementsAre(0, 1, 2, 3));
  leases.held[3] = 1;
  EXPECT_EQ(Decide(pool, leases, request).verdict, Verdict::kNotNow);
  request.host_limits = {1, 1};
  EXPECT_THAT(Decide(pool, leases, request).gpus, ElementsAre(0, 2));
  EXPECT_EQ(Decide(GpuPool(), PoolLeases({}), request).verdict, Verdict::kNever);
}

TEST(Decide, AllFreeMeansAtLeastOne) {
  const GpuPool pool = PoolOf({2, 1});
  PoolLeases leases(pool);
  AllocationRequest request;
  request.amount = Amount::kAllFree;
  leases.held[1] = 1;
  EXPECT_THAT(Decide(pool, leases, request).gpus, ElementsAre(0, 2));
  leases.held = {1, 1, 1};
  EXPECT_EQ(Decide(pool, leases, request).verdict, Verdict::kNotNow);
  request.least_capability = 1;
  EXPECT_EQ(Decide(pool, leases, request).verdict, Verdict::kNever);
}

TEST(Decide, NeverTakesWhatMayNotBeUsed) {
  GpuPool pool;
  pool.AddHost({{.usable = false}, {.usable = true}});
  EXPECT_THAT(Decide(pool, PoolLeases(pool), WantedGpus(1)).gpus, ElementsAre(1));
  EXPECT_EQ(Decide(pool, PoolLeases(pool), WantedGpus(2)).verdict, Verdict::kNever);
}

TEST(ParsePolicy, ReadsEveryNameAndNothingElse) {
  for (const Policy policy : kEvery) {
    const Result<Policy> parsed = ParsePolicy(PolicyName(policy));
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(*parsed, policy);
  }
  EXPECT_FALSE(ParsePolicy("").ok());
  EXPECT_FALSE(ParsePolicy("Pack").ok());
}

// --- Random cases

// Returns the values minimized by a policy, the most important first.
std::vector<double> Cost(const PoolCase& made, const std::vector<std::uint32_t>& gpus) {
  const auto by_host = ByHost(made.pool, gpus);
  const auto home = made.request.home ? by_host.find(*made.request.home) : by_host.end();
  const double own = home == by_host.end() ? 0 : home->second;
  // Free GPUs available to the request on each used host, ascending: fuller hosts come first.
  std::vector<double> fullness;
  for (const auto& [host, count] : by_host) {
    double free = 0;
    const PoolHost& there = made.pool.hosts[host];
    for (std::uint32_t gpu = there.first; gpu < there.first + there.count; ++gpu)
      free += MayHave(made, {gpu}, false);
    if (!made.request.host_limits.empty())
      free = std::min(free, static_cast<double>(made.request.host_limits[host]));
    const bool own_first =
        made.request.policy == Policy::kLocalFirst || made.request.policy == Policy::kPair;
    if (!own_first || host != made.request.home) fullness.push_back(free);
  }
  std::sort(fullness.begin(), fullness.end());
  std::vector<double> cost;
  switch (made.request.policy) {
    case Policy::kLocalFirst:
    case Policy::kPair:
      cost = {-own, static_cast<double>(fullness.size())};
      cost.insert(cost.end(), fullness.begin(), fullness.end());
      break;
    case Policy::kPack:
      cost = {static_cast<double>(by_host.size())};
      cost.insert(cost.end(), fullness.begin(), fullness.end());
      break;
    case Policy::kSpread: {
      std::vector<double> counts;
      for (const auto& [host, count] : by_host) counts.push_back(count);
      std::sort(counts.rbegin(), counts.rend());
      cost = counts;
      break;
    }
    case Policy::kFastest: {
      double speed = 0;
      for (const std::uint32_t gpu : gpus) speed += made.pool.gpus[gpu].speed;
      cost = {-speed, -own};
      break;
    }
  }
  return cost;
}

TEST(RandomPools, EveryPolicyChoosesTheBestOfAllChoices) {
  std::mt19937 random(1);
  std::map<Verdict, int> seen;
  for (int round = 0; round < 1500; ++round) {
    PoolCase made = RandomPoolCase(random, 4, 3);
    for (const Policy policy : kEvery) {
      made.request.policy = policy;
      const Decision decision = Decide(made.pool, made.leases, made.request);
      ++seen[decision.verdict];
      bool ever = false;
      std::vector<std::vector<double>> costs;
      ForEachChoice(made, [&](const std::vector<std::uint32_t>& gpus) {
        ever = ever || MayHave(made, gpus, true);
        if (MayHave(made, gpus, false)) costs.push_back(Cost(made, gpus));
      });
      const Verdict expected = !costs.empty() ? Verdict::kChosen
                               : ever         ? Verdict::kNotNow
                                              : Verdict::kNever;
      ASSERT_EQ(decision.verdict, expected) << PolicyName(policy) << " in round " << round;
      if (expected != Verdict::kChosen) continue;
      ASSERT_TRUE(MayHave(made, decision.gpus, false));
      ASSERT_EQ(Cost(made, decision.gpus), *std::min_element(costs.begin(), costs.end()))
          << PolicyName(policy) << " in round " << round;
    }
  }
  for (const Verdict verdict : {Verdict::kChosen, Verdict::kNotNow, Verdict::kNever})
    EXPECT_GT(seen[verdict], 200);
}

TEST(RandomPools, LargeOnesGiveWhatWasAskedFor) {
  std::mt19937 random(2);
  for (int round = 0; round < 200; ++round) {
    PoolCase made = RandomPoolCase(random, 60, 16);
    made.request.number = 1 + static_cast<std::uint32_t>(random() % 200);
    for (const Policy policy : kEvery) {
      made.request.policy = policy;
      const Decision decision = Decide(made.pool, made.leases, made.request);
      EXPECT_LE(decision.available, decision.fitting);
      if (decision.verdict != Verdict::kChosen) {
        EXPECT_LT(decision.available, made.request.number);
        EXPECT_TRUE(decision.gpus.empty());
        continue;
      }
      EXPECT_EQ(decision.gpus.size(), made.request.number);
      EXPECT_EQ(std::set(decision.gpus.begin(), decision.gpus.end()).size(), decision.gpus.size());
      EXPECT_TRUE(std::is_sorted(decision.gpus.begin(), decision.gpus.end()));
      EXPECT_TRUE(MayHave(made, decision.gpus, false));
    }
  }
}

}  // namespace
}  // namespace cuspan

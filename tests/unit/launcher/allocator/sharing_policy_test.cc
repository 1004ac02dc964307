// Policies for a sharing run: their choice among GPUs in use by others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "launcher/allocator/load_rank.h"
#include "launcher/allocator/policy.h"
#include "tests/unit/launcher/allocator/random_pools.h"

namespace cuspan {
namespace {

using scheduling::Bottleneck;
using testing::ElementsAre;

constexpr std::uint64_t kSharedGpuBytes = std::uint64_t{80} << 30;

constexpr Policy kSharingPolicies[] = {Policy::kLocalFirst, Policy::kPack, Policy::kSpread,
                                       Policy::kFastest, Policy::kPair};

// Returns hosts with `counts` identical, unused GPUs.
PoolCase SharedPool(const std::vector<std::uint32_t>& counts, Policy policy,
                    std::uint32_t number = 1) {
  PoolCase made;
  for (const std::uint32_t count : counts)
    made.pool.AddHost(std::vector<PoolGpu>(count, {kSharedGpuBytes, 1, 90, true}));
  made.leases = PoolLeases(made.pool);
  made.leases.loads.resize(made.pool.gpus.size());
  made.request.policy = policy;
  made.request.number = number;
  return made;
}

GpuLoad LoadOf(std::uint32_t runs, std::uint32_t promised = 0, std::uint64_t gibibytes = 0,
               Bottleneck kind = Bottleneck::kUnknown) {
  GpuLoad load;
  for (std::uint32_t run = 0; run < runs; ++run)
    load.Add(run == 0 ? promised : 0, run == 0 ? gibibytes << 30 : 0, kind);
  return load;
}

std::vector<std::uint32_t> ChosenOf(const PoolCase& made) {
  return Decide(made.pool, made.leases, made.request).gpus;
}

// Returns the order of GPUs taken by one-GPU runs, each without sharing.
std::vector<std::uint32_t> OrderOf(PoolCase made) {
  std::vector<std::uint32_t> order;
  for (;;) {
    const std::vector<std::uint32_t> gpus = ChosenOf(made);
    if (gpus.empty()) return order;
    order.push_back(gpus.front());
    made.leases.held[gpus.front()] = 1;
  }
}

// Returns two pools: all GPUs on one host, and each on its own host.
std::vector<PoolCase> WithLoads(const std::vector<GpuLoad>& loads, Policy policy) {
  std::vector<PoolCase> cases = {SharedPool({static_cast<std::uint32_t>(loads.size())}, policy),
                                 SharedPool(std::vector<std::uint32_t>(loads.size(), 1), policy)};
  for (PoolCase& made : cases) made.leases.loads = loads;
  return cases;
}

TEST(SharingPolicy, AGpuThatNobodyUsesComesFirst) {
  for (const Policy policy : {Policy::kLocalFirst, Policy::kSpread, Policy::kFastest})
    for (const PoolCase& made : WithLoads({LoadOf(1), LoadOf(2), LoadOf(0), LoadOf(1)}, policy))
      EXPECT_THAT(OrderOf(made), ElementsAre(2, 0, 3, 1)) << PolicyName(policy);
}

TEST(SharingPolicy, ThenTimeThatIsNotPromisedThenMemoryThatIsFree) {
  const std::vector<GpuLoad> loads = {LoadOf(1, 300, 0), LoadOf(1, 200, 40), LoadOf(1, 200, 20),
                                      LoadOf(2, 0, 0)};
  for (const Policy policy : {Policy::kLocalFirst, Policy::kSpread, Policy::kFastest})
    for (const PoolCase& made : WithLoads(loads, policy))
      EXPECT_THAT(OrderOf(made), ElementsAre(2, 1, 0, 3)) << PolicyName(policy);
}

TEST(SharingPolicy, MemoryThatIsFreeIsThatOfTheGpuWithoutWhatIsTaken) {
  PoolCase made = SharedPool({1, 1}, Policy::kLocalFirst);
  made.pool.gpus[1].memory_bytes *= 2;
  made.leases.loads = {LoadOf(1, 0, 30), LoadOf(1, 0, 60)};
  EXPECT_THAT(ChosenOf(made), ElementsAre(1));
  // More than the GPU's memory.
  made.leases.loads[1].memory_bytes = ~std::uint64_t{0};
  EXPECT_THAT(ChosenOf(made), ElementsAre(0));
}

TEST(SharingPolicy, HowMuchMemoryAFreeGpuHasDoesNotMatter) {
  PoolCase made = SharedPool({1, 1, 1}, Policy::kLocalFirst);
  made.pool.gpus[1].memory_bytes *= 2;
  made.leases.loads[2] = LoadOf(1);
  EXPECT_THAT(OrderOf(made), ElementsAre(0, 1, 2));
}

TEST(SharingPolicy, PackFillsTheFullestThatHasRoom) {
  const std::vector<GpuLoad> loads = {LoadOf(0), LoadOf(1, 100, 50), LoadOf(2), LoadOf(1, 200, 10),
                                      LoadOf(1, 100, 60)};
  for (const PoolCase& made : WithLoads(loads, Policy::kPack))
    EXPECT_THAT(OrderOf(made), ElementsAre(2, 3, 4, 1, 0));
}

TEST(SharingPolicy, WhatAPolicyPromisesComesBeforeThat) {
  // Own host, although shared.
  PoolCase local = SharedPool({1, 1}, Policy::kLocalFirst);
  local.leases.loads[1] = LoadOf(1);
  local.request.home = 1;
  EXPECT_THAT(ChosenOf(local), ElementsAre(1));
  // Fewest hosts, although shared.
  for (const Policy policy : {Policy::kLocalFirst, Policy::kPack}) {
    PoolCase few = SharedPool({1, 2, 1}, policy, 2);
    few.leases.loads[1] = few.leases.loads[2] = LoadOf(policy == Policy::kPack ? 0 : 1);
    EXPECT_THAT(ChosenOf(few), ElementsAre(1, 2)) << PolicyName(policy);
  }
  // The fastest, although shared. Among those of other hosts, an unused one.
  PoolCase fast = SharedPool({1, 1, 1}, Policy::kFastest);
  fast.pool.gpus[1].speed = fast.pool.gpus[2].speed = 2;
  fast.leases.loads[1] = LoadOf(1);
  fast.request.home = 1;
  EXPECT_THAT(OrderOf(fast), ElementsAre(2, 1, 0));
  // Few per host, although shared.
  PoolCase spread = SharedPool({2, 1}, Policy::kSpread, 2);
  spread.leases.loads[2] = LoadOf(1);
  EXPECT_THAT(ChosenOf(spread), ElementsAre(0, 2));
}

TEST(SharingPolicy, OfManyTheMostUsedIsAsLittleUsedAsTheHostsAllow) {
  PoolCase made = SharedPool({2, 2, 2, 2}, Policy::kLocalFirst, 3);
  made.leases.loads = {LoadOf(2), LoadOf(2), LoadOf(1), LoadOf(1),
                       LoadOf(0), LoadOf(0), LoadOf(3), LoadOf(0)};
  // It needs two hosts: the free GPUs of one, and the free GPU of another.
  EXPECT_THAT(ChosenOf(made), ElementsAre(4, 5, 7));
  made.request.number = 4;
  EXPECT_THAT(ChosenOf(made), ElementsAre(2, 3, 4, 5));
}

TEST(SharingPolicy, SpreadTakesTheLeastUsedOfEachHost) {
  PoolCase made = SharedPool({3, 3, 3}, Policy::kSpread, 4);
  made.leases.loads = {LoadOf(1), LoadOf(0), LoadOf(2), LoadOf(0), LoadOf(1),
                       LoadOf(1), LoadOf(3), LoadOf(0), LoadOf(0)};
  EXPECT_THAT(ChosenOf(made), ElementsAre(1, 3, 7, 8));
}

// --- Pairs

TEST(PairPolicy, PrefersARunThatComplementsThisOne) {
  const GpuLoad compute = LoadOf(1, 0, 0, Bottleneck::kCompute);
  const GpuLoad memory = LoadOf(1, 0, 0, Bottleneck::kMemory);
  const std::vector<GpuLoad> loads = {LoadOf(2, 0, 0, Bottleneck::kMemory), compute, LoadOf(0),
                                      LoadOf(1), memory};
  for (PoolCase made : WithLoads(loads, Policy::kPair)) {
    made.request.kind = Bottleneck::kCompute;
    EXPECT_THAT(OrderOf(made), ElementsAre(4, 3, 2, 1, 0));
    made.request.kind = Bottleneck::kMemory;
    EXPECT_THAT(OrderOf(made), ElementsAre(1, 3, 2, 4, 0));
    // Runs of unknown kind are all equal.
    made.request.kind = Bottleneck::kUnknown;
    EXPECT_THAT(OrderOf(made), ElementsAre(1, 3, 4, 2, 0));
  }
}

TEST(PairPolicy, OfEqualOnesTheOwnHostIsFirstThenTheLoadCounts) {
  PoolCase made = SharedPool({1, 1, 1, 1}, Policy::kPair);
  made.request.kind = Bottleneck::kCompute;
  made.request.home = 2;
  made.leases.loads = {LoadOf(1, 100, 0, Bottleneck::kMemory), LoadOf(1, 0, 0, Bottleneck::kMemory),
                       LoadOf(1, 200, 0, Bottleneck::kMemory), LoadOf(0)};
  EXPECT_THAT(OrderOf(made), ElementsAre(2, 1, 0, 3));
}

TEST(PairPolicy, TakesTheBetterOnesThenFewHosts) {
  PoolCase made = SharedPool({2, 3, 2}, Policy::kPair, 4);
  made.request.kind = Bottleneck::kCompute;
  made.leases.loads[0] = LoadOf(1, 0, 0, Bottleneck::kMemory);
  made.leases.loads[5] = LoadOf(1, 0, 0, Bottleneck::kCompute);
  EXPECT_THAT(ChosenOf(made), ElementsAre(0, 2, 3, 4));
  made.request.host_limits = {1, 2, 2};
  EXPECT_THAT(ChosenOf(made), ElementsAre(0, 2, 3, 6));
}

TEST(PairPolicy, IsLocalFirstWhereNobodyShares) {
  PoolCase made = SharedPool({1, 4, 2}, Policy::kPair, 2);
  made.leases.loads.clear();
  EXPECT_THAT(ChosenOf(made), ElementsAre(5, 6));
  made.request.home = 1;
  EXPECT_THAT(ChosenOf(made), ElementsAre(1, 2));
}

// --- Random cases

// Returns the values minimized by a policy, the most important first.
std::vector<std::uint64_t> SharingCost(const PoolCase& made,
                                       const std::vector<std::uint32_t>& gpus) {
  const auto by_host = ByHost(made.pool, gpus);
  const auto home = made.request.home ? by_host.find(*made.request.home) : by_host.end();
  const std::uint64_t away = gpus.size() - (home == by_host.end() ? 0 : home->second);
  // The maximum excludes GPUs on the own host, if the policy prefers this host.
  std::uint64_t worst = 0, runs = 0, speed = 0;
  std::vector<std::uint64_t> classes(kPairClasses);
  const auto own = [&](std::uint32_t gpu) {
    if (made.request.policy != Policy::kLocalFirst || home == by_host.end()) return false;
    const PoolHost& host = made.pool.hosts[*made.request.home];
    return gpu >= host.first && gpu < host.first + host.count;
  };
  for (const std::uint32_t gpu : gpus) {
    const LoadRank rank =
        RankOf(made.pool.gpus[gpu], made.leases.loads[gpu], made.request.policy, made.request.kind);
    if (!own(gpu)) worst = std::max(worst, rank);
    runs += made.leases.loads[gpu].runs;
    speed += static_cast<std::uint64_t>(made.pool.gpus[gpu].speed);
    ++classes[ClassOf(rank)];
  }
  std::vector<std::uint64_t> counts;
  for (const auto& [host, count] : by_host) counts.push_back(count);
  std::sort(counts.rbegin(), counts.rend());
  switch (made.request.policy) {
    case Policy::kLocalFirst:
      return {away, by_host.size(), worst};
    case Policy::kPack:
      return {by_host.size(), worst};
    case Policy::kSpread:
      return counts;
    case Policy::kFastest:
      return {1000 - speed, runs, away};
    case Policy::kPair:
      for (std::uint64_t& count : classes) count = gpus.size() - count;
      return classes;
  }
  return {};
}

void AddRandomLoads(std::mt19937& random, PoolCase& made) {
  const auto below = [&random](std::uint32_t end) { return RandomBelow(random, end); };
  made.request.kind = static_cast<Bottleneck>(below(3));
  made.leases.loads.resize(made.pool.gpus.size());
  for (GpuLoad& load : made.leases.loads)
    for (std::uint32_t runs = below(4); runs > 0; --runs)
      load.Add(100 * below(3), below(3), static_cast<Bottleneck>(below(3)));
}

TEST(RandomSharedPools, EveryPolicyChoosesTheBestOfAllChoices) {
  std::mt19937 random(3);
  int chosen = 0;
  for (int round = 0; round < 1500; ++round) {
    PoolCase made = RandomPoolCase(random, 4, 3);
    AddRandomLoads(random, made);
    for (const Policy policy : kSharingPolicies) {
      made.request.policy = policy;
      const Decision decision = Decide(made.pool, made.leases, made.request);
      if (decision.verdict != Decision::Verdict::kChosen) continue;
      ++chosen;
      ASSERT_TRUE(MayHave(made, decision.gpus, false)) << PolicyName(policy);
      ASSERT_EQ(decision.gpus.size(), made.request.number);
      const std::vector<std::uint64_t> cost = SharingCost(made, decision.gpus);
      ForEachChoice(made, [&](const std::vector<std::uint32_t>& gpus) {
        if (!MayHave(made, gpus, false)) return;
        EXPECT_LE(cost, SharingCost(made, gpus)) << PolicyName(policy) << " in round " << round;
      });
      ASSERT_FALSE(HasFailure());
    }
  }
  EXPECT_GT(chosen, 1000);
}

TEST(RandomSharedPools, LargeOnesGiveWhatWasAskedFor) {
  std::mt19937 random(4);
  for (int round = 0; round < 100; ++round) {
    PoolCase made = RandomPoolCase(random, 60, 16);
    AddRandomLoads(random, made);
    made.request.number = 1 + RandomBelow(random, 200);
    for (const Policy policy : kSharingPolicies) {
      made.request.policy = policy;
      const Decision decision = Decide(made.pool, made.leases, made.request);
      if (decision.verdict != Decision::Verdict::kChosen) continue;
      EXPECT_EQ(decision.gpus.size(), made.request.number);
      EXPECT_TRUE(std::is_sorted(decision.gpus.begin(), decision.gpus.end()));
      EXPECT_EQ(std::adjacent_find(decision.gpus.begin(), decision.gpus.end()),
                decision.gpus.end());
      EXPECT_TRUE(MayHave(made, decision.gpus, false)) << PolicyName(policy);
    }
  }
}

}  // namespace
}  // namespace cuspan

// Tests warp-wide operations against their definitions in the PTX ISA.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <vector>

#include "tests/unit/proxy/softgpu/driver/kernel_harness.h"

namespace cuspan::softgpu {
namespace {

struct ShuffleCase {
  ShuffleMode mode;
  std::uint32_t b, c, mask;
  std::uint32_t value[32] = {}, in_range[32] = {};
  std::uint32_t participated = 0;
};

std::uint32_t ValueOf(std::uint32_t lane) { return 1000 + lane * lane; }

void ShuffleKernel(ThreadContext* c) {
  auto& test = Argument<ShuffleCase>(c);
  if ((test.mask >> c->lane & 1) == 0) return;
  std::uint32_t in_range = 77;
  test.value[c->lane] =
      cuspan_rt_shuffle(c, test.mode, ValueOf(c->lane), test.b, test.c, test.mask, &in_range);
  test.in_range[c->lane] = in_range;
  test.participated |= 1u << c->lane;
}

// The third operand passed by CUDA's __shfl_*_sync for a width.
std::uint32_t Clamp(ShuffleMode mode, std::uint32_t width) {
  return (32 - width) << 8 | (mode == ShuffleMode::kUp ? 0 : 31);
}

// CUDA C++ Programming Guide, "Warp Shuffle Functions": shuffles stay within segments of `width`
// lanes. A lane without a source keeps its own value.
TEST(WarpTest, ShufflesWithinSegments) {
  for (const std::uint32_t width : {2u, 4u, 8u, 16u, 32u}) {
    for (std::uint32_t delta = 0; delta < width; ++delta) {
      for (const auto mode :
           {ShuffleMode::kUp, ShuffleMode::kDown, ShuffleMode::kButterfly, ShuffleMode::kIndex}) {
        ShuffleCase test{mode, delta, Clamp(mode, width), kAllLanes};
        ASSERT_EQ(RunLaunch(&ShuffleKernel, {1, 1, 1}, {32, 1, 1}, &test).error, CUDA_SUCCESS);
        ASSERT_EQ(test.participated, kAllLanes);
        for (std::uint32_t lane = 0; lane < 32; ++lane) {
          const std::uint32_t segment = lane / width * width, within = lane % width;
          std::uint32_t source = lane;
          bool in_range = true;
          switch (mode) {
            case ShuffleMode::kUp:
              in_range = within >= delta;
              source = lane - delta;
              break;
            case ShuffleMode::kDown:
              in_range = within + delta < width;
              source = lane + delta;
              break;
            case ShuffleMode::kButterfly:
              source = lane ^ delta;
              break;
            case ShuffleMode::kIndex:
              source = segment + delta;
              break;
          }
          if (!in_range) source = lane;
          ASSERT_EQ(test.value[lane], ValueOf(source))
              << "mode " << static_cast<int>(mode) << " width " << width << " delta " << delta
              << " lane " << lane;
          ASSERT_EQ(test.in_range[lane], in_range ? 1u : 0u);
        }
      }
    }
  }
}

TEST(WarpTest, LanesOutsideTheMaskOrExitedAreNotWaitedFor) {
  // Half of the warp takes part; the others have exited.
  ShuffleCase half{ShuffleMode::kDown, 1, Clamp(ShuffleMode::kDown, 32), 0x0000ffff};
  ASSERT_EQ(RunLaunch(&ShuffleKernel, {1, 1, 1}, {32, 1, 1}, &half).error, CUDA_SUCCESS);
  EXPECT_EQ(half.participated, 0xffffu);
  for (std::uint32_t lane = 0; lane < 15; ++lane) EXPECT_EQ(half.value[lane], ValueOf(lane + 1));
  // A block of 20 threads with the full mask: lanes 20 … 31 do not exist.
  ShuffleCase part{ShuffleMode::kIndex, 3, Clamp(ShuffleMode::kIndex, 32), kAllLanes};
  ASSERT_EQ(RunLaunch(&ShuffleKernel, {1, 1, 1}, {20, 1, 1}, &part).error, CUDA_SUCCESS);
  for (std::uint32_t lane = 0; lane < 20; ++lane) EXPECT_EQ(part.value[lane], ValueOf(3));
}

// `if (t >= 16) return; shfl(full mask)`: the lanes exit while others wait.
void ExitWhileOthersWait(ThreadContext* c) {
  auto& sum = Argument<std::atomic<int>>(c);
  if (c->lane >= 16) {
    cuspan_rt_yield(c);
    return;
  }
  std::uint32_t in_range = 0;
  sum += static_cast<int>(
      cuspan_rt_shuffle(c, ShuffleMode::kButterfly, c->lane, 1, 31, kAllLanes, &in_range));
}

TEST(WarpTest, ExitingLanesCompleteWhatOthersWaitFor) {
  std::atomic<int> sum{0};
  ASSERT_EQ(RunLaunch(&ExitWhileOthersWait, {1, 1, 1}, {64, 1, 1}, &sum).error, CUDA_SUCCESS);
  EXPECT_EQ(sum, 2 * (15 * 16 / 2));
}

// Both sides of a branch meet in a shuffle with the full mask, at two code positions.
void MeetFromBothSides(ThreadContext* c) {
  auto& wrong = Argument<std::atomic<int>>(c);
  std::uint32_t in_range = 0, got = 0;
  if (c->lane % 2 == 0) {
    got = cuspan_rt_shuffle(c, ShuffleMode::kButterfly, c->lane, 1, 31, kAllLanes, &in_range);
  } else {
    got = cuspan_rt_shuffle(c, ShuffleMode::kButterfly, c->lane, 1, 31, kAllLanes, &in_range);
  }
  wrong += got != (c->lane ^ 1);
}

TEST(WarpTest, LanesMeetFromDifferentPlaces) {
  std::atomic<int> wrong{0};
  ASSERT_EQ(RunLaunch(&MeetFromBothSides, {2, 1, 1}, {128, 1, 1}, &wrong).error, CUDA_SUCCESS);
  EXPECT_EQ(wrong, 0);
}

// Two groups of lanes use two masks at the same time.
void TwoGroups(ThreadContext* c) {
  auto& wrong = Argument<std::atomic<int>>(c);
  const std::uint32_t mask = c->lane < 8 ? 0x000000ff : 0xffffff00;
  for (int round = 0; round < 5; ++round) {
    wrong += cuspan_rt_vote(c, VoteMode::kBallot, c->lane % 2, mask) != (mask & 0xaaaaaaaa);
    wrong += cuspan_rt_reduce(c, 0, 1, mask) != static_cast<std::uint32_t>(std::popcount(mask));
  }
}

TEST(WarpTest, DisjointMasksDoNotDisturbEachOther) {
  std::atomic<int> wrong{0};
  ASSERT_EQ(RunLaunch(&TwoGroups, {1, 1, 1}, {96, 1, 1}, &wrong).error, CUDA_SUCCESS);
  EXPECT_EQ(wrong, 0);
}

struct Places {
  std::vector<std::uint32_t> order;  // Lanes in the order of passing positions.
};

// Lanes of a branch have two positions of their own before the common one.
void PassPlaces(ThreadContext* c) {
  auto& order = Argument<Places>(c).order;
  if (c->lane >= 30) return;
  if (c->lane % 2 == 1) {
    cuspan_rt_reconverge(c, 5);
    order.push_back(100 + c->lane);
    cuspan_rt_reconverge(c, 7);
    order.push_back(200 + c->lane);
  }
  cuspan_rt_reconverge(c, 9);
  order.push_back(300 + c->lane);
}

// The order is by position, then by lane. Exited lanes are not waited for.
TEST(WarpTest, LanesReconvergeInTheOrderOfPlaces) {
  Places places;
  ASSERT_EQ(RunLaunch(&PassPlaces, {1, 1, 1}, {32, 1, 1}, &places).error, CUDA_SUCCESS);
  std::vector<std::uint32_t> expected;
  for (const std::uint32_t at : {100u, 200u, 300u})
    for (std::uint32_t lane = 0; lane < 30; ++lane)
      if (at == 300 || lane % 2 == 1) expected.push_back(at + lane);
  EXPECT_EQ(places.order, expected);
}

// One lane yields on its way to the position of the waiting lanes.
void YieldOnTheWay(ThreadContext* c) {
  auto& order = Argument<Places>(c).order;
  for (int i = 0; i < 100 && c->lane == 3; ++i) cuspan_rt_yield(c);
  if (c->lane == 3) order.push_back(3);
  cuspan_rt_reconverge(c, 1);
  if (c->lane == 0) order.push_back(0);
}

TEST(WarpTest, LanesThatYieldAreWaitedFor) {
  Places places;
  ASSERT_EQ(RunLaunch(&YieldOnTheWay, {1, 1, 1}, {32, 1, 1}, &places).error, CUDA_SUCCESS);
  EXPECT_EQ(places.order, (std::vector<std::uint32_t>{3, 0}));
}

// The wait is limited: a spinning lane may depend on work of others after the position.
void SpinForOthers(ThreadContext* c) {
  auto& done = Argument<std::atomic<int>>(c);
  if (c->lane == 3)
    while (done.load() != 31) cuspan_rt_yield(c);
  cuspan_rt_reconverge(c, 1);
  ++done;
}

TEST(WarpTest, LanesThatSpinForTheOthersAreNotWaitedForForEver) {
  std::atomic<int> done{0};
  ASSERT_EQ(RunLaunch(&SpinForOthers, {1, 1, 1}, {32, 1, 1}, &done).error, CUDA_SUCCESS);
  EXPECT_EQ(done, 32);
}

void Votes(ThreadContext* c) {
  auto& wrong = Argument<std::atomic<int>>(c);
  const bool odd = c->lane % 2 == 1;
  wrong += cuspan_rt_vote(c, VoteMode::kBallot, odd, kAllLanes) != 0xaaaaaaaa;
  wrong += cuspan_rt_vote(c, VoteMode::kAll, odd, kAllLanes) != 0;
  wrong += cuspan_rt_vote(c, VoteMode::kAll, 1, kAllLanes) != 1;
  wrong += cuspan_rt_vote(c, VoteMode::kAny, odd, kAllLanes) != 1;
  wrong += cuspan_rt_vote(c, VoteMode::kAny, 0, kAllLanes) != 0;
  wrong += cuspan_rt_vote(c, VoteMode::kUniform, odd, kAllLanes) != 0;
  wrong += cuspan_rt_vote(c, VoteMode::kUniform, 0, kAllLanes) != 1;
  wrong += cuspan_rt_vote(c, VoteMode::kUniform, 1, kAllLanes) != 1;
}

TEST(WarpTest, VotesCountAllLanes) {
  std::atomic<int> wrong{0};
  ASSERT_EQ(RunLaunch(&Votes, {1, 1, 1}, {64, 1, 1}, &wrong).error, CUDA_SUCCESS);
  EXPECT_EQ(wrong, 0);
}

void Matches(ThreadContext* c) {
  auto& wrong = Argument<std::atomic<int>>(c);
  std::uint32_t equal = 77;
  // Values 0, 1, 2, 0, 1, 2 …
  std::uint32_t expected = 0;
  for (std::uint32_t lane = c->lane % 3; lane < 32; lane += 3) expected |= 1u << lane;
  wrong += cuspan_rt_match(c, MatchMode::kAny, c->lane % 3, kAllLanes, &equal) != expected;
  // 64-bit values differing above bit 31 only.
  const std::uint64_t wide = c->lane < 16 ? std::uint64_t{1} << 40 : 0;
  wrong += cuspan_rt_match(c, MatchMode::kAny, wide, kAllLanes, &equal) !=
           (c->lane < 16 ? 0xffffu : 0xffff0000u);
  wrong += cuspan_rt_match(c, MatchMode::kAll, 5, kAllLanes, &equal) != kAllLanes || equal != 1;
  wrong += cuspan_rt_match(c, MatchMode::kAll, c->lane == 3, kAllLanes, &equal) != 0 || equal != 0;
}

TEST(WarpTest, MatchesFindEqualValues) {
  std::atomic<int> wrong{0};
  ASSERT_EQ(RunLaunch(&Matches, {1, 1, 1}, {32, 1, 1}, &wrong).error, CUDA_SUCCESS);
  EXPECT_EQ(wrong, 0);
}

void Reductions(ThreadContext* c) {
  auto& wrong = Argument<std::atomic<int>>(c);
  const std::uint32_t value = c->lane - 5;  // −5 … 26.
  const auto reduce = [&](std::uint32_t operation) {
    return cuspan_rt_reduce(c, operation, value, kAllLanes);
  };
  wrong += reduce(0) != 31 * 32 / 2 - 5 * 32;
  wrong += reduce(1) != static_cast<std::uint32_t>(-5);
  wrong += reduce(2) != 26;
  wrong += reduce(3) != 0;
  wrong += reduce(4) != 0xffffffff;
  std::uint32_t all = ~0u, any = 0, parity = 0;
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    all &= lane - 5;
    any |= lane - 5;
    parity ^= lane - 5;
  }
  wrong += reduce(5) != all;
  wrong += reduce(6) != any;
  wrong += reduce(7) != parity;
}

TEST(WarpTest, ReductionsCombineAllLanes) {
  std::atomic<int> wrong{0};
  ASSERT_EQ(RunLaunch(&Reductions, {1, 1, 1}, {32, 1, 1}, &wrong).error, CUDA_SUCCESS);
  EXPECT_EQ(wrong, 0);
}

struct ActiveCase {
  std::uint32_t mask[64] = {};
};

// Typical use in divergent code: both sides get the active mask and work with it, while the other
// side waits elsewhere.
void ActiveLanes(ThreadContext* c) {
  auto& test = Argument<ActiveCase>(c);
  if (c->lane % 4 == 0) {
    const std::uint32_t mask = cuspan_rt_active_mask(c);
    test.mask[Thread(c)] = cuspan_rt_vote(c, VoteMode::kBallot, 1, mask);
  } else {
    const std::uint32_t mask = cuspan_rt_active_mask(c);
    test.mask[Thread(c)] = cuspan_rt_vote(c, VoteMode::kBallot, 1, mask);
  }
  cuspan_rt_barrier(c, 0, 0);
}

TEST(WarpTest, ActiveMaskNamesLanesThatAreThereTogether) {
  ActiveCase test;
  ASSERT_EQ(RunLaunch(&ActiveLanes, {1, 1, 1}, {64, 1, 1}, &test).error, CUDA_SUCCESS);
  for (std::uint32_t thread = 0; thread < 64; ++thread) {
    // CUDA guarantees: the caller is in the mask, and all its lanes agreed on it.
    EXPECT_TRUE(test.mask[thread] >> (thread % 32) & 1);
    // This implementation also guarantees: all lanes of the same branch are in it.
    EXPECT_EQ(test.mask[thread], thread % 4 == 0 ? 0x11111111u : ~0x11111111u);
  }
}

void ActiveWithoutFibers(ThreadContext* c) {
  Argument<ActiveCase>(c).mask[Thread(c)] = cuspan_rt_active_mask(c);
}

TEST(WarpTest, ActiveMaskIsTheLaneItselfWhereThreadsRunInTurn) {
  ActiveCase test;
  Launch launch = MakeLaunch(&ActiveWithoutFibers, {1, 1, 1}, {64, 1, 1}, &test);
  launch.compiled.needs_fibers = false;
  ASSERT_EQ(RunLaunch(std::move(launch)).error, CUDA_SUCCESS);
  for (std::uint32_t thread = 0; thread < 64; ++thread) {
    EXPECT_EQ(test.mask[thread], 1u << thread % 32);
  }
}

void NotInMask(ThreadContext* c) { cuspan_rt_warp_sync(c, 0xfffffffe); }
void EmptyMask(ThreadContext* c) { cuspan_rt_vote(c, VoteMode::kAny, 1, 0); }
void MissingLane(ThreadContext* c) {
  if (c->lane != 9) cuspan_rt_warp_sync(c, kAllLanes);
  cuspan_rt_barrier(c, 0, 0);
}

TEST(WarpTest, WrongMasksAreErrorsOfTheLaunch) {
  int unused = 0;
  Outcome outcome = RunLaunch(&NotInMask, {1, 1, 1}, {32, 1, 1}, &unused);
  EXPECT_EQ(outcome.error, CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_THAT(outcome.message, testing::HasSubstr("0xfffffffe"));
  outcome = RunLaunch(&EmptyMask, {1, 1, 1}, {32, 1, 1}, &unused);
  EXPECT_EQ(outcome.error, CUDA_ERROR_LAUNCH_FAILED);
  // Lane 9 waits at the block's barrier for ever.
  outcome = RunLaunch(&MissingLane, {1, 1, 1}, {32, 1, 1}, &unused);
  EXPECT_EQ(outcome.error, CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_THAT(outcome.message, testing::HasSubstr("are in a deadlock"));
}

}  // namespace
}  // namespace cuspan::softgpu

// Tests threads of a block: numbering, barriers, exits, yields, faults.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <numeric>
#include <vector>

#include "proxy/softgpu/rt/block.h"
#include "tests/unit/proxy/softgpu/driver/kernel_harness.h"

namespace cuspan::softgpu {
namespace {

struct Seen {
  std::vector<std::uint32_t> tid_x, tid_y, tid_z, lane, warp, block;
};

void RecordThread(ThreadContext* c) {
  auto& seen = Argument<Seen>(c);
  const std::uint32_t block =
      (c->ctaid[2] * c->nctaid[1] + c->ctaid[1]) * c->nctaid[0] + c->ctaid[0];
  const std::uint32_t i = block * c->ntid[0] * c->ntid[1] * c->ntid[2] + Thread(c);
  seen.tid_x[i] = c->tid[0];
  seen.tid_y[i] = c->tid[1];
  seen.tid_z[i] = c->tid[2];
  seen.lane[i] = c->lane;
  seen.warp[i] = c->warp;
  seen.block[i] = block;
}

// Lanes and warps number the threads with x fastest (PTX ISA, "%tid", "%laneid").
TEST(BlockTest, EveryThreadOfAGridRunsOnceAndKnowsItsPlace) {
  for (const bool fibers : {false, true}) {
    const Dimensions grid{3, 2, 2}, block{5, 3, 4};
    const std::size_t threads = grid.count() * block.count();
    Seen seen;
    for (auto* list :
         {&seen.tid_x, &seen.tid_y, &seen.tid_z, &seen.lane, &seen.warp, &seen.block}) {
      list->assign(threads, ~0u);
    }
    Launch launch = MakeLaunch(&RecordThread, grid, block, &seen);
    launch.compiled.needs_fibers = fibers;
    ASSERT_EQ(RunLaunch(std::move(launch)).error, CUDA_SUCCESS);
    for (std::size_t i = 0; i < threads; ++i) {
      const std::uint32_t in_block = i % block.count();
      ASSERT_EQ(seen.block[i], i / block.count());
      ASSERT_EQ(seen.tid_x[i], in_block % 5);
      ASSERT_EQ(seen.tid_y[i], in_block / 5 % 3);
      ASSERT_EQ(seen.tid_z[i], in_block / 15);
      ASSERT_EQ(seen.lane[i], in_block % 32);
      ASSERT_EQ(seen.warp[i], in_block / 32);
    }
  }
}

// A launch getting better code while it runs. Its remaining blocks use the better code.
struct Replaced {
  std::shared_ptr<LaterCode> later;
  CompiledKernel better;
  std::atomic<std::uint32_t> by_first = 0, by_better = 0;
};
void CountAsBetter(ThreadContext* c) { ++Argument<Replaced>(c).by_better; }
void CountAndReplace(ThreadContext* c) {
  auto& replaced = Argument<Replaced>(c);
  if (replaced.by_first++ == 0) replaced.later->Provide(replaced.better);
}

TEST(BlockTest, BetterCodeIsTakenFromTheNextBlockOn) {
  for (const bool first_fibers : {false, true}) {
    for (const bool better_warps : {false, true}) {
      Replaced replaced;
      replaced.later = std::make_shared<LaterCode>();
      replaced.better = {&CountAsBetter, !first_fibers, better_warps, 0, nullptr};
      const Dimensions grid{2000}, block{64};
      Launch launch = MakeLaunch(&CountAndReplace, grid, block, &replaced);
      launch.stack_of_thread = 4096;
      launch.Use({&CountAndReplace, first_fibers, false, 0, replaced.later});
      ASSERT_EQ(RunLaunch(std::move(launch)).error, CUDA_SUCCESS);
      ASSERT_EQ(replaced.by_first % block.count(), 0u) << "a block in two kinds of code";
      const auto first_blocks = replaced.by_first / block.count();
      // Blocks begun before: each worker takes at most a 32nd of the grid.
      EXPECT_GE(first_blocks, 1u);
      EXPECT_LE(first_blocks, 2 * kTestWorkers * (grid.count() / 32));
      const auto calls = better_warps ? block.count() / kWarpLanes : block.count();
      EXPECT_EQ(replaced.by_better, (grid.count() - first_blocks) * calls);
    }
  }
}

struct Rounds {
  std::vector<std::uint32_t> values;
  std::atomic<int> wrong{0};
};

// Each thread reads its neighbour's write from before the barrier, many times.
void PassAround(ThreadContext* c) {
  auto& rounds = Argument<Rounds>(c);
  auto* shared = reinterpret_cast<std::uint32_t*>(c->shared);
  const std::uint32_t n = c->ntid[0], me = Thread(c);
  shared[me] = me;
  for (std::uint32_t round = 1; round <= 20; ++round) {
    cuspan_rt_barrier(c, 0, 0);
    const std::uint32_t got = shared[(me + 1) % n];
    cuspan_rt_barrier(c, 0, 0);
    shared[me] = got;
    if (got != (me + round) % n) ++rounds.wrong;
  }
  rounds.values[c->ctaid[0] * n + me] = shared[me];
}

TEST(BlockTest, BarriersOrderSharedMemory) {
  for (const std::uint32_t threads : {1u, 31u, 32u, 33u, 100u, 1024u}) {
    SCOPED_TRACE(threads);
    Rounds rounds;
    rounds.values.resize(4 * threads);
    Launch launch = MakeLaunch(&PassAround, {4, 1, 1}, {threads, 1, 1}, &rounds);
    launch.dynamic_shared_bytes = threads * 4;
    ASSERT_EQ(RunLaunch(std::move(launch)).error, CUDA_SUCCESS);
    EXPECT_EQ(rounds.wrong, 0);
    for (std::uint32_t i = 0; i < 4 * threads; ++i) {
      ASSERT_EQ(rounds.values[i], (i + 20) % threads);
    }
  }
}

// Exited threads count as arrived (PTX ISA, "barrier").
void SomeExitEarly(ThreadContext* c) {
  auto& reached = Argument<std::atomic<int>>(c);
  if (Thread(c) % 3 == 1) return;
  cuspan_rt_barrier(c, 0, 0);
  if (Thread(c) % 3 == 2) cuspan_rt_exit(c);
  cuspan_rt_barrier(c, 0, 0);
  ++reached;
}

TEST(BlockTest, BarriersDoNotWaitForExitedThreads) {
  std::atomic<int> reached{0};
  ASSERT_EQ(RunLaunch(&SomeExitEarly, {2, 1, 1}, {300, 1, 1}, &reached).error, CUDA_SUCCESS);
  EXPECT_EQ(reached, 200);
}

// Warps 0 and 1 use barrier 1, warps 2 and 3 barrier 2, each with its own count;
// warp 4 produces for warp 5 by arrive and sync on barrier 3.
void NamedBarriers(ThreadContext* c) {
  auto* shared = reinterpret_cast<std::uint32_t*>(c->shared);
  auto& wrong = Argument<std::atomic<int>>(c);
  const std::uint32_t me = Thread(c);
  if (c->warp < 4) {
    const std::uint32_t barrier = 1 + c->warp / 2;
    shared[me] = me + 1;
    cuspan_rt_barrier(c, barrier, 64);
    const std::uint32_t first = c->warp / 2 * 64;
    for (std::uint32_t i = first; i < first + 64; ++i) wrong += shared[i] != i + 1;
  } else if (c->warp == 4) {
    shared[me] = me + 1;
    cuspan_rt_barrier_arrive(c, 3, 64);
  } else {
    cuspan_rt_barrier(c, 3, 64);
    wrong += shared[me - 32] != me - 31;
  }
}

TEST(BlockTest, NamedBarriersCountWarps) {
  std::atomic<int> wrong{0};
  Launch launch = MakeLaunch(&NamedBarriers, {8, 1, 1}, {192, 1, 1}, &wrong);
  launch.static_shared_bytes = 192 * 4;
  ASSERT_EQ(RunLaunch(std::move(launch)).error, CUDA_SUCCESS);
  EXPECT_EQ(wrong, 0);
}

void CountedPartialWarp(ThreadContext* c) {
  // 40 threads are two warps, and count as 64 threads.
  cuspan_rt_barrier(c, 1, 64);
  ++Argument<std::atomic<int>>(c);
}

TEST(BlockTest, PartialWarpCountsWhole) {
  std::atomic<int> passed{0};
  ASSERT_EQ(RunLaunch(&CountedPartialWarp, {1, 1, 1}, {40, 1, 1}, &passed).error, CUDA_SUCCESS);
  EXPECT_EQ(passed, 40);
}

void ReduceAtBarrier(ThreadContext* c) {
  auto& wrong = Argument<std::atomic<int>>(c);
  const std::uint32_t me = Thread(c), n = c->ntid[0];
  wrong +=
      cuspan_rt_barrier_reduce(c, 0, 0, BarrierReduction::kPopulation, me % 4 == 0) != (n + 3) / 4;
  wrong += cuspan_rt_barrier_reduce(c, 0, 0, BarrierReduction::kAnd, 1) != 1;
  wrong += cuspan_rt_barrier_reduce(c, 0, 0, BarrierReduction::kAnd, me != 7) != 0;
  wrong += cuspan_rt_barrier_reduce(c, 0, 0, BarrierReduction::kOr, me == 7) != 1;
  wrong += cuspan_rt_barrier_reduce(c, 0, 0, BarrierReduction::kOr, 0) != 0;
}

TEST(BlockTest, BarriersReduce) {
  std::atomic<int> wrong{0};
  ASSERT_EQ(RunLaunch(&ReduceAtBarrier, {2, 1, 1}, {77, 1, 1}, &wrong).error, CUDA_SUCCESS);
  EXPECT_EQ(wrong, 0);
}

void NeverMeet(ThreadContext* c) { cuspan_rt_barrier(c, Thread(c) < 32 ? 1 : 2, 0); }

TEST(BlockTest, ABarrierThatNeverCompletesIsAnError) {
  int unused = 0;
  const Outcome outcome = RunLaunch(&NeverMeet, {1, 1, 1}, {64, 1, 1}, &unused);
  EXPECT_EQ(outcome.error, CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_THAT(outcome.message, testing::HasSubstr("barrier 1"));
}

void WrongBarrier(ThreadContext* c) { cuspan_rt_barrier(c, 16, 0); }
void WrongCount(ThreadContext* c) { cuspan_rt_barrier(c, 1, 33); }

TEST(BlockTest, BarrierOperandsAreChecked) {
  int unused = 0;
  EXPECT_EQ(RunLaunch(&WrongBarrier, {1, 1, 1}, {32, 1, 1}, &unused).error,
            CUDA_ERROR_ILLEGAL_INSTRUCTION);
  EXPECT_EQ(RunLaunch(&WrongCount, {1, 1, 1}, {64, 1, 1}, &unused).error,
            CUDA_ERROR_ILLEGAL_INSTRUCTION);
}

struct Lock {
  std::atomic<int> held{0};
  int counter = 0;  // Guarded by `held`.
};

// The holder yields after taking the lock. Spinning threads must let it run.
void SpinLock(ThreadContext* c) {
  auto& lock = Argument<Lock>(c);
  for (int expected = 0; !lock.held.compare_exchange_strong(expected, 1); expected = 0) {
    cuspan_rt_yield(c);
  }
  cuspan_rt_yield(c);  // While holding it.
  ++lock.counter;
  lock.held.store(0);
}

TEST(BlockTest, SpinningThreadsLetTheHolderRun) {
  Lock lock;
  ASSERT_EQ(RunLaunch(&SpinLock, {8, 1, 1}, {64, 1, 1}, &lock).error, CUDA_SUCCESS);
  EXPECT_EQ(lock.counter, 8 * 64);
}

// All blocks meet without a cooperative launch. The grid has as many blocks as a GPU runs at once.
void MeetAll(ThreadContext* c) {
  auto& come = Argument<std::atomic<unsigned>>(c);
  ++come;
  while (come < c->nctaid[0]) cuspan_rt_yield(c);
}

TEST(BlockTest, BlocksWaitForThoseThatHaveNotBegun) {
  constexpr std::uint32_t kBlocks = 132 * 2;
  std::atomic<unsigned> come{0};
  EXPECT_EQ(RunLaunch(&MeetAll, {kBlocks, 1, 1}, {1, 1, 1}, &come).error, CUDA_SUCCESS);
  EXPECT_EQ(come, kBlocks);
}

// Memory next to a stack, for example device memory, is not local.
void LookBesideTheStack(ThreadContext* c) {
  const Execution& execution = static_cast<Fiber*>(c->fiber)->execution;
  const auto low = reinterpret_cast<std::uint64_t>(execution.low);
  const std::uint64_t end = low + execution.bytes;
  const int local = 0;
  cuspan_rt_barrier(c, 0, 0);
  auto& wrong = Argument<std::atomic<int>>(c);
  wrong += cuspan_rt_is_local(c, reinterpret_cast<std::uint64_t>(&local)) != 1;
  wrong += cuspan_rt_is_local(c, low) != 1;
  wrong += cuspan_rt_is_local(c, low - 1) != 0;
  wrong += cuspan_rt_is_local(c, end - 1) != 1;
  wrong += cuspan_rt_is_local(c, end) != 0;
}

TEST(BlockTest, LocalIsTheThreadsOwnStackAndNoMore) {
  for (const bool fibers : {false, true}) {
    std::atomic<int> wrong{0};
    Launch launch = MakeLaunch(&LookBesideTheStack, {4, 1, 1}, {fibers ? 64u : 1u, 1, 1}, &wrong);
    launch.compiled.needs_fibers = fibers;
    ASSERT_EQ(RunLaunch(std::move(launch)).error, CUDA_SUCCESS);
    EXPECT_EQ(wrong, 0);
  }
}

struct GridSync {
  std::atomic<std::uint32_t> arrived{0};
  std::atomic<int> wrong{0};
};

// All blocks meet three times, like in cooperative groups.
void MeetAsGrid(ThreadContext* c) {
  auto& sync = Argument<GridSync>(c);
  for (std::uint32_t round = 1; round <= 3; ++round) {
    cuspan_rt_barrier(c, 0, 0);
    if (Thread(c) == 0) {
      ++sync.arrived;
      while (sync.arrived < round * c->nctaid[0]) cuspan_rt_yield(c);
    }
    cuspan_rt_barrier(c, 0, 0);
    sync.wrong += sync.arrived < round * c->nctaid[0];
  }
}

TEST(BlockTest, CooperativeBlocksAreResidentTogether) {
  GridSync sync;
  // Far more blocks than workers, or than a worker usually keeps.
  Launch launch = MakeLaunch(&MeetAsGrid, {64, 1, 1}, {64, 1, 1}, &sync);
  launch.cooperative = true;
  ASSERT_EQ(RunLaunch(std::move(launch)).error, CUDA_SUCCESS);
  EXPECT_EQ(sync.arrived, 3u * 64);
  EXPECT_EQ(sync.wrong, 0);
}

void StoreOutside(ThreadContext* c) {
  if (Thread(c) == 5) static_cast<void>(*reinterpret_cast<volatile int*>(0x10));
  cuspan_rt_barrier(c, 0, 0);
}

TEST(BlockTest, AnUnmappedAddressEndsTheLaunchNotTheProcess) {
  int unused = 0;
  for (int round = 0; round < 50; ++round) {
    const Outcome outcome = RunLaunch(&StoreOutside, {4, 1, 1}, {64, 1, 1}, &unused);
    ASSERT_EQ(outcome.error, CUDA_ERROR_ILLEGAL_ADDRESS);
    ASSERT_THAT(outcome.message, testing::HasSubstr("thread (5,0,0)"));
    ASSERT_THAT(outcome.message, testing::HasSubstr("0x10"));
  }
}

void StoreOutsideInLoop(ThreadContext* c) {
  if (Thread(c) == 5) static_cast<void>(*reinterpret_cast<volatile int*>(0x10));
}

TEST(BlockTest, FaultsInKernelsWithoutFibersAreCaught) {
  int unused = 0;
  Launch launch = MakeLaunch(&StoreOutsideInLoop, {1, 1, 1}, {64, 1, 1}, &unused);
  launch.compiled.needs_fibers = false;
  const Outcome outcome = RunLaunch(std::move(launch));
  EXPECT_EQ(outcome.error, CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_THAT(outcome.message, testing::HasSubstr("thread (5,0,0)"));
}

void PastSharedMemory(ThreadContext* c) {
  *reinterpret_cast<volatile int*>(c->shared + 64 * 1024) = 1;
}

TEST(BlockTest, FarBeyondSharedMemoryFaults) {
  int unused = 0;
  Launch launch = MakeLaunch(&PastSharedMemory, {1, 1, 1}, {1, 1, 1}, &unused);
  launch.static_shared_bytes = 64 * 1024;
  EXPECT_EQ(RunLaunch(std::move(launch)).error, CUDA_ERROR_ILLEGAL_ADDRESS);
}

#if !defined(__SANITIZE_ADDRESS__)  // It reports the overflow itself.
[[gnu::noinline]] int Recurse(volatile int* depth) {
  volatile char frame[512];
  frame[0] = static_cast<char>(*depth);
  *depth = *depth + 1;
  return *depth < 1'000'000 ? Recurse(depth) + frame[0] : frame[0];
}
void Overflow(ThreadContext* c) { Recurse(&Argument<volatile int>(c)); }

TEST(BlockTest, AStackOverflowIsAnErrorOfTheLaunch) {
  for (int round = 0; round < 10; ++round) {
    volatile int depth = 0;
    const Outcome outcome = RunLaunch(&Overflow, {1, 1, 1}, {1, 1, 1}, const_cast<int*>(&depth));
    ASSERT_EQ(outcome.error, CUDA_ERROR_ILLEGAL_ADDRESS);
    ASSERT_THAT(outcome.message, testing::HasSubstr("overflowed"));
  }
}
#endif

void Trap(ThreadContext* c) {
  if (Thread(c) == 3) cuspan_rt_fault(c, CUDA_ERROR_LAUNCH_FAILED, "trap");
}

TEST(BlockTest, TrapEndsTheLaunch) {
  int unused = 0;
  const Outcome outcome = RunLaunch(&Trap, {2, 1, 1}, {32, 1, 1}, &unused);
  EXPECT_EQ(outcome.error, CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_THAT(outcome.message, testing::HasSubstr("trap"));
}

// One block fails while others spin: they must end, too.
void FailWhileOthersSpin(ThreadContext* c) {
  if (c->ctaid[0] == 0) cuspan_rt_fault(c, CUDA_ERROR_LAUNCH_FAILED, "trap");
  for (;;) cuspan_rt_yield(c);
}

TEST(BlockTest, AFailureEndsSpinningBlocks) {
  int unused = 0;
  Launch launch = MakeLaunch(&FailWhileOthersSpin, {6, 1, 1}, {32, 1, 1}, &unused);
  launch.cooperative = true;
  EXPECT_EQ(RunLaunch(std::move(launch)).error, CUDA_ERROR_LAUNCH_FAILED);
}

}  // namespace
}  // namespace cuspan::softgpu

#include "protocol/channel/bell.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "tests/unit/protocol/channel/ends.h"

namespace cuspan {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// Waits sleeping as soon as possible: on this path wake-ups can be lost.
constexpr WaitStages kSleepAtOnce{std::chrono::nanoseconds(0), std::chrono::nanoseconds(0)};
constexpr WaitStages kSpin{std::chrono::hours(1), std::chrono::hours(1)};
constexpr WaitStages kYield{std::chrono::nanoseconds(0), std::chrono::hours(1)};

TEST(Bell, DoesNotWaitForWhatIsReady) {
  Bell bell = NewBell();
  for (const WaitStages& stages : {kSleepAtOnce, kSpin, kYield})
    EXPECT_TRUE(bell.Wait([] { return true; }, kForEver, stages));
}

TEST(Bell, GivesUpAfterItsLimit) {
  Bell bell = NewBell();
  for (const WaitStages& stages : {kSleepAtOnce, kSpin, kYield})
    EXPECT_FALSE(bell.Wait([] { return false; }, milliseconds(5), stages));
  EXPECT_FALSE(bell.Wait([] { return false; }, milliseconds(0), kSleepAtOnce));
}

TEST(Bell, RingsWithNobodyThere) {
  Bell bell = NewBell();
  bell.Ring();
  OtherEnd(bell).Ring();
}

TEST(Bell, ARingWithoutCauseLetsNobodyOut) {
  Bell bell = NewBell();
  std::atomic<bool> ready = false;
  std::atomic<bool> out = false;
  std::thread waiter([&] {
    EXPECT_TRUE(bell.Wait([&] { return ready.load(); }, kForEver, kSleepAtOnce));
    out = true;
  });
  for (int i = 0; i < 100; ++i) bell.Ring();
  EXPECT_FALSE(out);
  ready = true;
  bell.Ring();
  waiter.join();
}

TEST(Bell, WorksWithoutItsDescriptor) {
  Bell bell = NewBell();
  Bell other = OtherEnd(bell);
  other.CloseFd();
  std::atomic<bool> ready = false;
  std::thread waiter(
      [&] { EXPECT_TRUE(bell.Wait([&] { return ready.load(); }, kForEver, kSleepAtOnce)); });
  ready = true;
  other.Ring();
  waiter.join();
}

// Two threads alternate. A lost wake-up ends the test by time-out.
TEST(Bell, LosesNoWakeUpBetweenTwoThreads) {
  constexpr std::uint64_t kTurns = 20000;
  Bell bells[2] = {NewBell(), NewBell()};
  std::atomic<std::uint64_t> turn = 0;
  const auto play = [&](std::uint64_t side) {
    while (turn.load() < kTurns) {
      EXPECT_TRUE(bells[side].Wait([&] { return turn.load() % 2 == side || turn.load() >= kTurns; },
                                   kForEver, kSleepAtOnce));
      if (turn.load() >= kTurns) break;
      turn.fetch_add(1);
      bells[1 - side].Ring();
    }
    bells[1 - side].Ring();
  };
  std::thread first(play, 0);
  std::thread second(play, 1);
  first.join();
  second.join();
}

// Several threads sleep at one bell, each waiting for its own data.
TEST(Bell, LosesNoWakeUpAmongSeveralSleepers) {
  constexpr std::size_t kSleepers = 4;
  constexpr std::uint64_t kRounds = 5000;
  Bell bell = NewBell();
  Bell answer = NewBell();
  std::atomic<std::uint64_t> given[kSleepers] = {};
  std::atomic<std::uint64_t> taken = 0;
  std::vector<std::thread> sleepers;
  for (std::size_t i = 0; i < kSleepers; ++i) {
    sleepers.emplace_back([&, i] {
      for (std::uint64_t round = 1; round <= kRounds; ++round) {
        EXPECT_TRUE(bell.Wait([&] { return given[i].load(std::memory_order_acquire) >= round; },
                              kForEver, kSleepAtOnce));
        taken.fetch_add(1);
        answer.Ring();
      }
    });
  }
  for (std::uint64_t round = 1; round <= kRounds; ++round) {
    for (std::atomic<std::uint64_t>& gift : given) {
      gift.store(round, std::memory_order_release);
      bell.Ring();
    }
    EXPECT_TRUE(
        answer.Wait([&] { return taken.load() == kSleepers * round; }, kForEver, kSleepAtOnce));
  }
  for (std::thread& sleeper : sleepers) sleeper.join();
}

TEST(Bell, NobodyNapsWhoIsNotIdle) {
  Bell bell = NewBell();
  bell.ShortSleep([] { return false; }, kForEver);
}

TEST(Bell, ANapEndsByItself) {
  Bell bell = NewBell();
  bell.ShortSleep([] { return true; }, milliseconds(5));
}

// A thread is in a back-off sleep while another serves its work. It must be awake once the other
// has stopped.
TEST(Bell, LosesNoWakeUpOfOneThatNaps) {
  constexpr std::uint64_t kRounds = 5000;
  Bell bell = NewBell();
  Bell answer = NewBell();
  std::atomic<bool> watched = false;
  std::atomic<std::uint64_t> given = 0;
  std::atomic<std::uint64_t> taken = 0;
  std::thread napper([&] {
    while (taken.load() < kRounds) {
      bell.ShortSleep([&] { return watched.load(); }, kForEver);
      const auto work = [&] { return !watched.load() && given.load() > taken.load(); };
      EXPECT_TRUE(bell.Wait([&] { return watched.load() || work(); }, kForEver, kSleepAtOnce));
      if (work()) taken.fetch_add(1);
      answer.Ring();
    }
  });
  for (std::uint64_t round = 1; round <= kRounds; ++round) {
    watched = true;
    bell.LetShortSleepersSleep();
    if (round % 2 == 0) bell.Ring();
    watched = false;
    bell.RingShortSleepers();
    given = round;
    bell.Ring();
    EXPECT_TRUE(answer.Wait([&] { return taken.load() == round; }, kForEver, kSleepAtOnce));
  }
  napper.join();
}

// Rings do not wake it, and cost no system call, while its work is done by another.
TEST(Bell, LetsOneSleepThatNaps) {
  Bell bell = NewBell();
  std::atomic<bool> naps = false;
  std::thread napper([&] { bell.ShortSleep([&] { return naps = true; }, milliseconds(20)); });
  while (!naps) std::this_thread::yield();
  const std::uint32_t before = bell.rung();
  bell.RingShortSleepers();
  bell.LetShortSleepersSleep();
  bell.Ring();
  EXPECT_EQ(bell.rung(), before);
  bell.RingShortSleepers();
  // A thread sleeping for another reason is woken all the same.
  static_cast<void>(bell.BeginSleep());
  bell.LetShortSleepersSleep();
  bell.Ring();
  EXPECT_EQ(bell.rung(), before + 1);
  napper.join();
}

TEST(Bell, WakesAnotherProcess) {
  constexpr std::uint32_t kTurns = 2000;
  Bell bells[2] = {NewBell(), NewBell()};
  const UniqueFd memory = *CreateSharedMemory("cuspan-test", sizeof(std::atomic<std::uint32_t>));
  const Mapping mapping = *Mapping::Map(memory.get(), 0, sizeof(std::atomic<std::uint32_t>));
  auto& turn = *reinterpret_cast<std::atomic<std::uint32_t>*>(mapping.data());
  const auto play = [&](std::uint32_t side) {
    for (std::uint32_t mine = side; mine < kTurns; mine += 2) {
      if (!bells[side].Wait([&] { return turn.load() == mine; }, kForEver, kSleepAtOnce))
        return false;
      turn.store(mine + 1);
      bells[1 - side].Ring();
    }
    return true;
  };
  const pid_t child = ::fork();
  if (child == 0) ::_exit(play(1) ? 0 : 1);
  EXPECT_TRUE(play(0));
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(turn.load(), kTurns);
}

TEST(Bell, OpenRefusesWhatIsNoBell) {
  EXPECT_FALSE(Bell::Open(UniqueFd()).ok());
  EXPECT_FALSE(Bell::Open(UniqueFd(::open("/dev/null", O_RDWR | O_CLOEXEC))).ok());
  EXPECT_FALSE(Bell::Open(*CreateSharedMemory("cuspan-test", 4)).ok()) << "too short";
  UniqueFd unsealed(::memfd_create("cuspan-test", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(unsealed.get(), 4096), 0);
  EXPECT_FALSE(Bell::Open(std::move(unsealed)).ok())
      << "its owner could shorten it and we would crash";
}

// A peer may write anything there. At worst a thread wakes up spuriously.
TEST(Bell, SurvivesGarbageInItsMemory) {
  Bell bell = NewBell();
  const Mapping mapping = *Mapping::Map(bell.fd(), 0, 64);
  std::atomic<bool> done = false;
  std::thread vandal([&] {
    while (!done.load()) {
      for (std::size_t i = 0; i < 16; ++i) {
        reinterpret_cast<std::atomic<std::uint8_t>*>(mapping.data() + i)
            ->fetch_add(0x35, std::memory_order_relaxed);
      }
      std::this_thread::yield();
    }
  });
  for (int i = 0; i < 100; ++i)
    EXPECT_FALSE(bell.Wait([] { return false; }, microseconds(300), kSleepAtOnce));
  for (int i = 0; i < 100; ++i) bell.Ring();
  done = true;
  vandal.join();
}

TEST(WaitStages, SpinBeforeTheyYield) {
  const WaitStages stages = WaitStages::ForThisMachine();
  EXPECT_GT(stages.spin.count(), 0);
  EXPECT_GT(stages.yield, stages.spin);
}

}  // namespace
}  // namespace cuspan

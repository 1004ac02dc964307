// Tests the assignment of time slices, on a simulated clock.
#include "common/scheduling/time_slices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

namespace cuspan::scheduling {
namespace {

constexpr std::uint64_t kMicrosecond = 1'000;
constexpr std::uint64_t kMillisecond = 1'000'000;
constexpr std::uint64_t kSecond = 1'000'000'000;

// A simulated GPU running one kernel at a time. All kernels of a run have the same length.
class Simulation {
 public:
  struct Run {
    std::uint64_t kernel = 0;    // Length of a kernel.
    std::uint64_t backlog = 0;   // Number of waiting kernels.
    std::uint64_t left = 0;      // Rest of the running kernel; 0: not running.
    std::uint64_t gpu_time = 0;  // GPU time used.
    std::uint64_t busy = 0;      // Time with a kernel on the GPU.
    std::uint64_t arrived = 0;   // Start of the backlog.
    std::uint64_t finished = 0;  // End of the backlog.
    std::uint64_t first_began = 0;
    std::uint64_t swap = 0;  // Time to swap its memory in; 0: always resident.
    bool swapping = false;
    std::uint64_t swaps = 0;  // Number of swaps.
  };

  std::uint32_t Add(const SharingRun& terms, std::uint64_t kernel) {
    const auto number = static_cast<std::uint32_t>(runs.size());
    slices.runs[number] = terms;
    slices.runs[number].present = true;
    slices.runs[number].idle_since = now;
    runs.push_back({kernel});
    return number;
  }
  void Give(std::uint32_t number, std::uint64_t kernels) {
    Run& run = runs[number];
    if (run.backlog == 0 && run.left == 0) {
      run.arrived = now;
      run.first_began = 0;
    }
    run.backlog += kernels;
    Decide();
  }
  // Simulates `time` in steps of `step`.
  void Advance(std::uint64_t time, std::uint64_t step = 20 * kMicrosecond) {
    for (const std::uint64_t end = now + time; now < end;) {
      Step(step);
      now += step;
      if (now >= next || changed) Decide();
    }
  }
  void Decide() {
    changed = false;
    for (std::uint32_t i = 0; i < runs.size(); ++i) {
      SharingRun& told = slices.runs[i];
      const bool wants = runs[i].backlog != 0 || runs[i].left != 0;
      if (told.wants && !wants) told.idle_since = now;
      told.wants = wants;
      told.on_gpu = runs[i].left != 0;
      told.busy = runs[i].busy;
      told.done_by = now + runs[i].left;
      told.swap = resident == i ? 0 : runs[i].swap;
    }
    next = scheduling::Decide(slices, now);
    ++decisions;
    std::uint32_t open = 0;
    for (const SharingRun& run : slices.runs) open += run.open ? 1 : 0;
    EXPECT_LE(open, 1U) << "at " << now;
  }

  TimeSlices slices;
  std::vector<Run> runs;
  std::uint64_t now = kSecond;
  std::uint64_t next = kNever;
  std::uint64_t decisions = 0;
  bool changed = false;
  std::uint32_t stopped = kNobody;   // A run making no progress.
  std::uint32_t resident = kNobody;  // The run with its memory on the GPU, among runs with `swap`.

 private:
  void Step(std::uint64_t step) {
    std::uint64_t on_gpu = 0;
    for (std::uint32_t i = 0; i < runs.size(); ++i) {
      Run& run = runs[i];
      if (run.left == 0 && run.backlog != 0 && slices.runs[i].open && i != stopped) {
        run.swapping = run.swap != 0 && resident != i;
        if (run.swapping) {
          resident = i;
          ++run.swaps;
        } else {
          --run.backlog;
        }
        run.left = run.swapping ? run.swap : run.kernel;
        if (run.first_began == 0) run.first_began = now;
        changed = true;
      }
      on_gpu += run.left != 0 ? 1 : 0;
    }
    for (Run& run : runs) {
      if (run.left == 0) continue;
      const std::uint64_t part = std::min(run.left, step / on_gpu);
      run.left -= part;
      if (!run.swapping) run.gpu_time += part;
      run.busy += step;
      if (run.left != 0) continue;
      changed = true;
      if (run.backlog == 0) run.finished = now + step;
    }
  }
};

constexpr std::uint64_t kMany = std::uint64_t{1} << 40;

SharingRun Terms(std::int32_t niceness, std::uint32_t quota = 0, std::uint32_t limit = kWhole) {
  SharingRun terms;
  terms.niceness = niceness;
  terms.quota = quota;
  terms.limit = limit;
  return terms;
}

double ShareOf(const Simulation& simulation, std::uint32_t run, std::uint64_t before,
               std::uint64_t time) {
  return static_cast<double>(simulation.runs[run].gpu_time - before) / static_cast<double>(time);
}

TEST(TimeSlicesTest, OneRunAloneIsNeverHeldUpAndNobodyHasToLook) {
  Simulation simulation;
  const std::uint32_t run = simulation.Add(Terms(0), 100 * kMicrosecond);
  simulation.Give(run, 3);
  EXPECT_TRUE(simulation.slices.runs[run].open);
  EXPECT_EQ(simulation.next, kNever);
  simulation.Advance(kSecond);
  EXPECT_TRUE(simulation.slices.runs[run].open) << "also while it has nothing to do";
}

TEST(TimeSlicesTest, EqualRunsHaveEqualParts) {
  Simulation simulation;
  for (const std::uint64_t kernel : {20 * kMicrosecond, kMillisecond, 20 * kMillisecond})
    simulation.Give(simulation.Add(Terms(0), kernel), kMany);
  simulation.Advance(5 * kSecond);
  for (std::uint32_t i = 0; i < 3; ++i)
    EXPECT_NEAR(ShareOf(simulation, i, 0, 5 * kSecond), 1.0 / 3, 0.02) << i;
}

// SHARING 3.6: quotas within three points over any five seconds, for kernels of any length.
TEST(TimeSlicesTest, PartsAreWhatRunsHadOfTheTimeLately) {
  Simulation simulation;
  const std::uint32_t a = simulation.Add({}, kMillisecond);
  const std::uint32_t b = simulation.Add({}, kMillisecond);
  simulation.Give(a, 1'000'000);
  simulation.Give(b, 1'000'000);
  simulation.Advance(3 * kSecond);
  for (const std::uint32_t run : {a, b}) {
    // The time before their start does not count.
    EXPECT_NEAR(simulation.slices.runs[run].now.Value(), 0.5, 0.05);
    EXPECT_NEAR(simulation.slices.runs[run].lately.Value(), 0.5, 0.05);
  }
  simulation.Advance(30 * kSecond);
  // One becomes idle.
  simulation.runs[b].backlog = 0;
  simulation.Advance(3 * kSecond);
  EXPECT_GT(simulation.slices.runs[a].now.Value(), 0.9);
  EXPECT_LT(simulation.slices.runs[b].now.Value(), 0.05);
  EXPECT_GT(simulation.slices.runs[b].lately.Value(), 0.3);
  EXPECT_LT(simulation.slices.runs[b].lately.Value(), 0.45);
  // While all are idle no decision is made, but the time counts.
  simulation.runs[a].backlog = 0;
  simulation.Advance(2 * kMillisecond);
  simulation.now += 100 * kSecond;
  simulation.Decide();
  EXPECT_LT(simulation.slices.runs[a].lately.Value(), 0.1);
}

TEST(TimeSlicesTest, QuotasHoldOverAnyFiveSeconds) {
  Simulation simulation;
  const std::uint32_t quotas[] = {500, 300, 200};
  const std::uint64_t kernels[] = {20 * kMicrosecond, kMillisecond, 20 * kMillisecond};
  for (int i = 0; i < 3; ++i)
    simulation.Give(simulation.Add(Terms(0, quotas[i]), kernels[i]), kMany);
  std::vector<std::vector<std::uint64_t>> had;  // GPU times, per second.
  for (int second = 0; second <= 12; ++second) {
    std::vector<std::uint64_t> now;
    for (const auto& run : simulation.runs) now.push_back(run.gpu_time);
    had.push_back(now);
    simulation.Advance(kSecond);
  }
  for (std::size_t first = 0; first + 5 < had.size(); ++first)
    for (std::uint32_t i = 0; i < 3; ++i)
      EXPECT_NEAR(static_cast<double>(had[first + 5][i] - had[first][i]) / (5.0 * kSecond),
                  quotas[i] / 1000.0, 0.03)
          << "run " << i << " from second " << first;
}

TEST(TimeSlicesTest, WhatIsNotPromisedIsSharedEqually) {
  Simulation simulation;
  simulation.Give(simulation.Add(Terms(0, 600), kMillisecond), kMany);
  simulation.Give(simulation.Add(Terms(0), kMillisecond), kMany);
  simulation.Advance(5 * kSecond);
  EXPECT_NEAR(ShareOf(simulation, 0, 0, 5 * kSecond), 0.8, 0.03);
}

TEST(TimeSlicesTest, HighPriorityTakesTheGpuAtOnce) {
  Simulation simulation;
  const std::uint32_t batch = simulation.Add(Terms(10), 200 * kMicrosecond);
  const std::uint32_t urgent = simulation.Add(Terms(-10), 240 * kMicrosecond);
  simulation.Give(batch, kMany);
  for (int burst = 0; burst < 20; ++burst) {
    simulation.Advance(41 * kMillisecond + burst * 37 * kMicrosecond);
    simulation.Give(urgent, 40);
    EXPECT_TRUE(simulation.slices.runs[urgent].open) << burst;
    EXPECT_FALSE(simulation.slices.runs[batch].open) << burst;
    const std::uint64_t began = simulation.now;
    simulation.Advance(11 * kMillisecond);
    const Simulation::Run& run = simulation.runs[urgent];
    ASSERT_EQ(run.backlog + run.left, 0U) << burst;
    // Its own 9.6 ms, and the kernel running at its arrival.
    EXPECT_LE(run.finished - began, 9600 * kMicrosecond + 240 * kMicrosecond) << burst;
  }
  EXPECT_EQ(simulation.slices.runs[batch].preempted, 20U);
}

TEST(TimeSlicesTest, LowPriorityDoesNotStarve) {
  Simulation simulation;
  simulation.Give(simulation.Add(Terms(-10), kMillisecond), kMany);
  const std::uint32_t low = simulation.Add(Terms(10), kMillisecond);
  simulation.Give(low, kMany);
  simulation.Advance(20 * kSecond);
  EXPECT_GE(simulation.slices.runs[low].turns, 5U);
  EXPECT_LE(ShareOf(simulation, low, 0, 20 * kSecond), 0.05) << "and priority holds";
}

TEST(TimeSlicesTest, LowPriorityHasItsQuota) {
  Simulation simulation;
  simulation.Give(simulation.Add(Terms(-10), kMillisecond), kMany);
  const std::uint32_t low = simulation.Add(Terms(10, 200), kMillisecond);
  simulation.Give(low, kMany);
  simulation.Advance(5 * kSecond);
  EXPECT_GE(ShareOf(simulation, low, 0, 5 * kSecond), 0.19);
  EXPECT_LE(ShareOf(simulation, low, 0, 5 * kSecond), 0.24);
}

// A run waiting for results between its kernels gives up its time slice each time. It still has its
// quota.
TEST(TimeSlicesTest, ARunThatPausesHasItsQuota) {
  Simulation simulation;
  const std::uint32_t pausing = simulation.Add(Terms(0, 600), 200 * kMicrosecond);
  const std::uint32_t batch = simulation.Add(Terms(0, 200), 200 * kMicrosecond);
  simulation.Give(batch, kMany);
  const std::uint64_t began = simulation.now;
  while (simulation.now < began + 5 * kSecond) {
    simulation.Give(pausing, 16);
    while (simulation.runs[pausing].backlog + simulation.runs[pausing].left != 0)
      simulation.Advance(20 * kMicrosecond);
    simulation.Advance(400 * kMicrosecond);
  }
  EXPECT_GE(ShareOf(simulation, pausing, 0, simulation.now - began), 0.57);
  EXPECT_GE(ShareOf(simulation, batch, 0, simulation.now - began), 0.2);
}

TEST(TimeSlicesTest, ALimitHoldsEvenAlone) {
  Simulation simulation;
  const std::uint32_t run = simulation.Add(Terms(0, 0, 300), kMillisecond);
  simulation.Give(run, kMany);
  simulation.Advance(5 * kSecond);
  EXPECT_NEAR(ShareOf(simulation, run, 0, 5 * kSecond), 0.3, 0.02);
}

TEST(TimeSlicesTest, ARunThatIsIdleGivesItsTurnAway) {
  Simulation simulation;
  const std::uint32_t first = simulation.Add(Terms(0), kMillisecond);
  const std::uint32_t second = simulation.Add(Terms(0), kMillisecond);
  simulation.Give(first, 1);
  simulation.Give(second, kMany);
  EXPECT_FALSE(simulation.slices.runs[second].open);
  simulation.Advance(kMillisecond);
  EXPECT_TRUE(simulation.slices.runs[first].open) << "it may go on after a moment";
  simulation.Advance(kIdleGrace + 100 * kMicrosecond);
  EXPECT_TRUE(simulation.slices.runs[second].open);
  EXPECT_FALSE(simulation.slices.runs[first].open);
}

TEST(TimeSlicesTest, HighPriorityWaitsForNobodyWhoIsIdle) {
  Simulation simulation;
  const std::uint32_t low = simulation.Add(Terms(10), 100 * kMicrosecond);
  const std::uint32_t high = simulation.Add(Terms(-10), 100 * kMicrosecond);
  simulation.Give(low, 1);
  simulation.Advance(120 * kMicrosecond);
  ASSERT_FALSE(simulation.slices.runs[low].wants);
  simulation.Give(high, 1);
  EXPECT_TRUE(simulation.slices.runs[high].open);
}

TEST(TimeSlicesTest, NobodyLooksAllTheTimeWhileARunHasHadItsLimit) {
  Simulation simulation;
  const std::uint32_t limited = simulation.Add(Terms(0, 0, 10), kMillisecond);
  const std::uint32_t other = simulation.Add(Terms(0), kMillisecond);
  simulation.Give(limited, kMany);
  simulation.Give(other, kMany);
  simulation.Advance(kSecond);
  const std::uint64_t before = simulation.decisions;
  simulation.Advance(kSecond);
  // At the start and end of each kernel, and rarely in between.
  EXPECT_LE(simulation.decisions - before, 2200U);
}

// GPU time used while no other run was present or active does not count against a run.
TEST(TimeSlicesTest, TimeAloneIsNotPaidBackWhenBothPause) {
  Simulation simulation;
  const std::uint32_t old_one = simulation.Add(Terms(0), kMillisecond);
  simulation.Give(old_one, 20'000);
  simulation.Advance(21 * kSecond);
  ASSERT_FALSE(simulation.slices.runs[old_one].wants);
  simulation.Give(simulation.Add(Terms(0), kMillisecond), kMany);
  simulation.Advance(kMillisecond);
  const std::uint64_t before = simulation.runs[old_one].gpu_time;
  simulation.Give(old_one, kMany);
  simulation.Advance(kSecond);
  EXPECT_NEAR(ShareOf(simulation, old_one, before, kSecond), 0.5, 0.04);
}

TEST(TimeSlicesTest, WhoIsStoppedInItsTurnLosesIt) {
  Simulation simulation;
  const std::uint32_t stopped = simulation.Add(Terms(-10), kMillisecond);
  const std::uint32_t other = simulation.Add(Terms(0), kMillisecond);
  simulation.Give(stopped, 1);
  simulation.Advance(2 * kMillisecond);
  simulation.stopped = stopped;
  simulation.Give(stopped, 1);
  simulation.Give(other, kMany);
  const std::uint64_t before = simulation.runs[other].gpu_time;
  simulation.Advance(5 * kSecond);
  EXPECT_GE(ShareOf(simulation, other, before, 5 * kSecond), 0.98);
  simulation.stopped = kNobody;
  ++simulation.slices.runs[stopped].asked;
  simulation.Decide();
  EXPECT_TRUE(simulation.slices.runs[stopped].open) << "it is back";
}

// Idle time earns no credit: the run present meanwhile keeps its share from the start.
TEST(TimeSlicesTest, ARunThatComesBackHasNoCredit) {
  Simulation simulation;
  const std::uint32_t busy = simulation.Add(Terms(0), kMillisecond);
  const std::uint32_t late = simulation.Add(Terms(0), kMillisecond);
  simulation.Give(busy, kMany);
  simulation.Advance(10 * kSecond);
  const std::uint64_t before = simulation.runs[busy].gpu_time;
  simulation.Give(late, kMany);
  simulation.Advance(kSecond);
  EXPECT_NEAR(ShareOf(simulation, busy, before, kSecond), 0.5, 0.04);
}

TEST(TimeSlicesTest, AKernelThatDoesNotEndHoldsUpNobody) {
  Simulation simulation;
  const std::uint32_t endless = simulation.Add(Terms(0), 3600 * kSecond);
  const std::uint32_t other = simulation.Add(Terms(0), kMillisecond);
  simulation.Give(endless, 1);
  simulation.Advance(kMillisecond);
  simulation.Give(other, kMany);
  simulation.Advance(5 * kSecond);
  // While both are on the GPU, the driver gives each half.
  EXPECT_GE(ShareOf(simulation, other, 0, 5 * kSecond), 0.4);
}

TEST(TimeSlicesTest, WhoIsGoneHoldsUpNobody) {
  Simulation simulation;
  const std::uint32_t gone = simulation.Add(Terms(-10), kSecond);
  const std::uint32_t other = simulation.Add(Terms(0), kMillisecond);
  simulation.Give(gone, kMany);
  simulation.Advance(kMillisecond);
  simulation.Give(other, kMany);
  simulation.slices.runs[gone].present = false;
  simulation.Decide();
  EXPECT_TRUE(simulation.slices.runs[other].open);
}

// The niceness of a run's process counts, too.
TEST(TimeSlicesTest, TheNicenessOfTheProcessCounts) {
  Simulation simulation;
  SharingRun nice = Terms(0);
  nice.process_niceness = 10;
  const std::uint32_t batch = simulation.Add(nice, kMillisecond);
  const std::uint32_t urgent = simulation.Add(Terms(0), kMillisecond);
  simulation.Give(batch, kMany);
  simulation.Advance(kMillisecond);
  simulation.Give(urgent, 1);
  EXPECT_TRUE(simulation.slices.runs[urgent].open);
}

// Two runs; the GPU has room for the memory of one.
TEST(TimeSlicesTest, MemoryIsBroughtSeldom) {
  Simulation simulation;
  for (int i = 0; i < 2; ++i) {
    simulation.Give(simulation.Add(Terms(0), kMillisecond), kMany);
    simulation.runs.back().swap = 100 * kMillisecond;
  }
  simulation.Advance(60 * kSecond, 100 * kMicrosecond);
  for (std::uint32_t run = 0; run < 2; ++run) {
    EXPECT_NEAR(ShareOf(simulation, run, 0, 60 * kSecond), 0.475, 0.04);
    EXPECT_GE(simulation.runs[run].swaps, 12U);
    EXPECT_LE(simulation.runs[run].swaps, 16U) << "every two seconds one of them";
  }
}

TEST(TimeSlicesTest, WhoseMemoryIsThereHasItsTurnsMeanwhile) {
  Simulation simulation;
  for (int i = 0; i < 2; ++i) {
    simulation.Give(simulation.Add(Terms(0), kMillisecond), kMany);
    simulation.runs.back().swap = 100 * kMillisecond;
  }
  const std::uint32_t small = simulation.Add(Terms(0), kMillisecond);
  simulation.Give(small, kMany);
  simulation.Advance(5 * kSecond, 100 * kMicrosecond);
  std::uint64_t before = simulation.runs[small].gpu_time;
  // Holds in every half second, though the others are swapped every two seconds.
  for (int i = 0; i < 20; ++i) {
    simulation.Advance(500 * kMillisecond, 100 * kMicrosecond);
    EXPECT_GE(ShareOf(simulation, small, before, 500 * kMillisecond), 0.25);
    before = simulation.runs[small].gpu_time;
  }
  EXPECT_LE(simulation.runs[0].swaps + simulation.runs[1].swaps, 9U);
  EXPECT_GE(simulation.runs[0].swaps + simulation.runs[1].swaps, 6U);
}

TEST(TimeSlicesTest, MemoryIsNotBroughtForAPauseThatIsShorter) {
  Simulation simulation;
  const std::uint32_t pauses = simulation.Add(Terms(0), kMillisecond);
  const std::uint32_t waits = simulation.Add(Terms(0), kMillisecond);
  for (Simulation::Run& run : simulation.runs) run.swap = 100 * kMillisecond;
  simulation.Give(pauses, 1);
  simulation.Give(waits, kMany);
  simulation.Advance(150 * kMillisecond);
  EXPECT_FALSE(simulation.slices.runs[pauses].wants);
  EXPECT_EQ(simulation.resident, pauses);
  simulation.Give(pauses, 1);
  simulation.Advance(90 * kMillisecond);
  EXPECT_EQ(simulation.resident, pauses);
  simulation.Advance(30 * kMillisecond);
  EXPECT_EQ(simulation.resident, waits);
}

TEST(TimeSlicesTest, HighPriorityHasItsMemoryBroughtAtOnce) {
  Simulation simulation;
  const std::uint32_t low = simulation.Add(Terms(10), kMillisecond);
  const std::uint32_t high = simulation.Add(Terms(-10), kMillisecond);
  for (Simulation::Run& run : simulation.runs) run.swap = 100 * kMillisecond;
  simulation.Give(low, kMany);
  simulation.Advance(200 * kMillisecond);
  simulation.Give(high, 1);
  simulation.Advance(110 * kMillisecond);
  EXPECT_EQ(simulation.runs[high].gpu_time, kMillisecond);
}

TEST(TimeSlicesTest, AThousandArrivalsAreAllServed) {
  Simulation simulation;
  std::mt19937 random(7);
  for (std::uint32_t i = 0; i < 8; ++i)
    simulation.Add(Terms(static_cast<std::int32_t>(i) - 4, i % 3 == 0 ? 100 : 0),
                   (20 + 100 * i) * kMicrosecond);
  for (int i = 0; i < 1000; ++i) {
    simulation.Give(random() % 8, 1 + random() % 5);
    simulation.Advance(random() % 2000 * kMicrosecond + 20 * kMicrosecond);
  }
  simulation.Advance(5 * kSecond);
  for (const Simulation::Run& run : simulation.runs) EXPECT_EQ(run.backlog + run.left, 0U);
  EXPECT_EQ(simulation.slices.waiting, 0U);
}

// The table is in memory writable by others.
TEST(TimeSlicesTest, GarbageEndsNothing) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 2000; ++round) {
    TimeSlices slices;
    auto* bytes = reinterpret_cast<unsigned char*>(&slices);
    for (std::size_t i = 0; i < sizeof slices; ++i)
      if (random() % 3 == 0) bytes[i] = static_cast<unsigned char>(random());
    Decide(slices, random());
    Decide(slices, random());
  }
}

}  // namespace
}  // namespace cuspan::scheduling

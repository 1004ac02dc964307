// Measurement of calls, for the programs of `cuspan bench calls`. They print one line for each
// class:
//   CALL THREADS DEVICES ISSUE_US ROUND_TRIP_US PER_SECOND
// Issue: time of one call among many without waiting. Round trip: time of one call and the wait for
// it, or of the call alone if it blocks. Both are medians.
#pragma once

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "bench/common/median.h"

using Clock = std::chrono::steady_clock;

inline double Microseconds(Clock::duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

inline int rounds = 200;
// Calls between two waits, as in a typical program.
constexpr int kCallsInARound = 100;

struct Measured {
  double issue = 0;
  double round_trip = 0;
  double per_second = 0;
};

// Measures `call`. `wait` waits for its completion.
inline Measured Measure(const std::function<void()>& call, const std::function<void()>& wait,
                        int calls_at_once = 1) {
  Measured measured;
  for (int i = 0; i < kCallsInARound; ++i) call();
  wait();
  std::vector<double> samples;
  for (int round = 0; round < rounds; ++round) {
    const auto start = Clock::now();
    for (int i = 0; i < kCallsInARound; ++i) call();
    samples.push_back(Microseconds(Clock::now() - start) / kCallsInARound / calls_at_once);
    wait();
  }
  measured.issue = Median(samples);
  samples.clear();
  for (int round = 0; round < 5 * rounds; ++round) {
    const auto start = Clock::now();
    call();
    wait();
    samples.push_back(Microseconds(Clock::now() - start) / calls_at_once);
  }
  measured.round_trip = Median(samples);
  const int many = 50 * rounds;
  const auto start = Clock::now();
  for (int i = 0; i < many; ++i) call();
  wait();
  measured.per_second = 1e6 * many * calls_at_once / Microseconds(Clock::now() - start);
  return measured;
}

inline void Print(const char* call, int threads, int devices, const Measured& measured) {
  std::printf("%s %d %d %.4f %.4f %.0f\n", call, threads, devices, measured.issue,
              measured.round_trip, measured.per_second);
  std::fflush(stdout);
}

// Measures calls of nanoseconds: many calls between two reads of the clock.
inline void MeasureLocal(const char* name, const std::function<void()>& call) {
  constexpr int kAtOnce = 100;
  const auto calls = [&] {
    for (int i = 0; i < kAtOnce; ++i) call();
  };
  Print(name, 1, 1,
        Measure(
            calls, [] {}, kAtOnce));
}

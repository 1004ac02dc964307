// Decides which of several runs sharing a GPU may use it. A pure function of their activity, their
// parameters and the time.
//
// One run is the holder: it has the time slice, and its gate is open. Another run gets the GPU
//   - at once, if the holder is idle (for kIdleGrace, a program's pause between two kernels), or if
//     the other run is of higher priority;
//   - else at the end of the time slice, in the order of effective priority (effective_priority.h).
//     Among equals, the run with the least GPU time relative to its share is first.
// A run behind its quota by a quarter of a time slice precedes all others, at once. A run beyond
// its limit waits even if the GPU is free.
//
// Running kernels can not be ended. At the end of a time slice the next run waits until the GPU has
// completed the previous run's work, or until this work is overdue. After that both are on the GPU,
// and the driver time-slices between them.
//
// A run's memory may have to be swapped in first, and that of others swapped out
// (SharingRun::swap). This is rare. The run gets the GPU once the present memory has stayed for
// kTimeSlicesPerSwap times the swap time, or once all others have been idle for the swap time. If
// its priority is higher than the holder's, it gets the GPU at once.
//
// In pairs, the gate of a second run is open as well if both together are faster than time-sliced
// (pairs.h). The partner is the best match among the waiting runs. Runs of different priority are a
// pair only if the less important one has a limit, in this case a limit of the GPU's processors. A
// run is alone in its time slice if its possible partners match each other better. Rates not yet
// known are measured in time slices.
#pragma once

#include <array>
#include <cstdint>

#include "common/scheduling/effective_priority.h"
#include "common/scheduling/pairs.h"

namespace cuspan::scheduling {

inline constexpr std::uint32_t kMaxSharingRuns = 16;
inline constexpr std::uint32_t kWhole = 1000;  // All of a GPU's time. Unit of quotas and limits.
inline constexpr std::uint32_t kNobody = ~std::uint32_t{0};
inline constexpr std::uint64_t kNever = ~std::uint64_t{0};

// All times are in nanoseconds. Points in time have an epoch chosen by the caller, and are not 0.
inline constexpr std::uint64_t kTimeSlice = 10'000'000;
inline constexpr std::uint64_t kIdleGrace = 200'000;
// Tolerance for a leaving run's work beyond its predicted end, and the maximum time of waiting for
// it. After that the next run starts.
inline constexpr std::uint64_t kLeavePatience = 2'000'000;
inline constexpr std::uint64_t kLongestLeave = 50'000'000;
// If a run wants the GPU but is inactive for this long in its time slice, it was stopped. It loses
// the time slice until it asks again.
inline constexpr std::uint64_t kLongestStall = 20'000'000;
// Decay times of the shares reported as "now" and "10 s".
inline constexpr std::uint64_t kNow = 1'000'000'000;
inline constexpr std::uint64_t kLately = 10'000'000'000;
// Memory swapped in stays for at least kTimeSlicesPerSwap times its swap time. kLongestSwap limits
// this swap time.
inline constexpr std::uint64_t kTimeSlicesPerSwap = 20;
inline constexpr std::uint64_t kLongestSwap = 60'000'000'000;
// Maximum time between decisions while runs wait: a run may have died.
inline constexpr std::uint64_t kMaxDecisionInterval = 50'000'000;

// A boolean in memory writable by other processes: any byte is valid.
using Flag = std::uint8_t;

// A run's share of the GPU's time; older time counts less and less.
struct DecayingPart {
  double had = 0, time = 0;

  double Value() const { return time > 0 ? had / time : 0; }
  // Adds `more_had` out of `more_time`. Time older than `memory` hardly counts afterwards.
  void Add(double more_had, double more_time, double memory) {
    had += (more_had - had * more_time) / (more_time + memory);
    time += (more_time - time * more_time) / (more_time + memory);
  }
};

struct SharingRun {
  // --- Parameters
  Flag present = 0;
  std::int32_t niceness = 0;          // nice(1) scale: -20 is the most important.
  std::int32_t process_niceness = 0;  // Niceness of the program's process.
  std::uint32_t quota = 0;            // Minimum share of GPU time, in 1/kWhole.
  std::uint32_t limit = kWhole;       // Maximum share of GPU time, in 1/kWhole.

  // --- Activity, updated before each decision
  Flag wants = 0;          // Has work waiting or on the GPU.
  Flag known = 0;          // The stand-alone time of its work is known.
  std::uint64_t done = 0;  // Work completed, in ns of stand-alone time.
  Bottleneck bottleneck = Bottleneck::kUnknown;
  Flag on_gpu = 0;               // Has work on the GPU.
  std::uint64_t busy = 0;        // Total time with work on the GPU.
  std::uint64_t asked = 0;       // Number of decisions requested by the run itself.
  std::uint64_t done_by = 0;     // Predicted end of its work on the GPU; 0: unknown.
  std::uint64_t idle_since = 0;  // If it does not want the GPU.
  std::uint64_t used_at = 0;     // Last time it was on the GPU.
  std::uint64_t swap = 0;        // Time to swap in its memory; 0: it is on the GPU.

  // --- Decision
  Flag open = 0;  // It may submit work to the GPU.

  // --- State of TimeSlices
  Flag wanted = 0;
  std::uint64_t busy_before = 0;
  std::uint64_t done_before = 0;
  double rate = 1;  // Normalised rate in its pair.
  std::uint64_t asked_before = 0;
  std::uint64_t stirred = 0;        // Last time it used the GPU.
  Flag choked = 0;                  // Beyond its limit.
  Flag stalled = 0;                 // Has the time slice, wants the GPU, but is inactive.
  Flag overdue = 0;                 // Its time is over, but it still has work on the GPU.
  std::uint64_t waiting_since = 0;  // 0: it does not wait.
  std::uint64_t used = 0;           // GPU time.
  DecayingPart now, lately;         // Shares of GPU time, decaying in kNow and kLately.
  std::uint64_t turns = 0;          // Number of time slices.
  std::uint64_t preempted = 0;      // Number of preemptions by a run of higher priority.
  std::uint64_t waited = 0;         // Total time waiting for the GPU.
  double pass = 0;                  // GPU time divided by its weight.
  double average_wait = 0;          // Decaying average in ms.
  double owed = 0;                  // Deficit against its quota (ns).
  double room = 0;                  // Rest of its limit (ns).
};

// Lower is more important.
inline std::int64_t NicenessOf(const SharingRun& run) {
  return std::int64_t{run.niceness} + run.process_niceness;
}

// All-zero bytes, as in new shared memory, are a valid initial state, except `holder`.
struct TimeSlices {
  std::array<SharingRun, kMaxSharingRuns> runs;
  std::uint32_t holder = kNobody;  // The run with the time slice, or about to get it.
  Flag holder_owed = 0;            // Chosen because of its quota: can not be preempted.
  Flag preempting = 0;             // Does not wait for others: all are less important.
  double holder_bonus = 0;         // Priority steps kept during this time slice for its wait.
  double virtual_time = 0;         // Lowest pass of the runs wanting the GPU.
  std::uint64_t time_slice_ends = 0;
  std::uint64_t swapped_at = 0;   // When a run with swapped-out memory last got the GPU.
  std::uint64_t leave_limit = 0;  // End of the holder's wait for leaving runs.
  std::uint64_t decided_at = 0;
  double decayed_wait = 0;    // Decaying average in ms.
  std::uint32_t waiting = 0;  // Number of waiting runs.

  // --- Pairs
  Flag pairs = 0;                   // Pairs are allowed.
  std::uint32_t partner = kNobody;  // The second run with an open gate.
  // Number of partners replaced by a better one, and the last change's expected gain and cost (ns
  // of work).
  std::uint64_t changes = 0;
  double last_gain = 0, last_cost = 0;
  std::array<std::array<PairRecord, kMaxSharingRuns>, kMaxSharingRuns> records;

  PairRecord& RecordOf(std::uint32_t a, std::uint32_t b) {
    return a < b ? records[a][b] : records[b][a];
  }
  // Called when a new run takes this slot.
  void ForgetPairs(std::uint32_t run) {
    for (std::uint32_t other = 0; other < kMaxSharingRuns; ++other) RecordOf(run, other) = {};
  }
};

// Updates all accounts to `now` and decides. Call whenever a run's activity changes. Returns the
// time of the next call if nothing changes before; kNever if no run waits.
std::uint64_t Decide(TimeSlices& slices, std::uint64_t now);

}  // namespace cuspan::scheduling

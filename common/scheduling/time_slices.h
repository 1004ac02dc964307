// Whose turn a GPU is, of several runs that share it: a pure function of what they are doing, of
// what they were promised, and of the time.
//
// One run has the turn; its gate is open. Others that want the GPU wait, and get it
//   - at once, when the one that has it has nothing to do (for kIdleGrace, which a program needs
//     between two kernels), or when they are of higher priority;
//   - else at the end of its turn, the one of the highest effective priority first
//     (effective_priority.h), of equals the one that had least of what it may have.
// A run that has less than its quota, and is behind by a quarter of a turn, goes before all others,
// at once. A run that has had its limit waits even if nobody else wants the GPU.
//
// At the end of a turn the next run waits until the GPU is done with what the last one had handed
// over, or has taken much longer with it than was said: kernels can not be ended. From then on both
// are on the GPU, and the driver gives it to them by turns.
//
// The memory of a run may have to be brought to the GPU first, and that of others away
// (SharingRun:: swap). That is done seldom: such a run gets the GPU when the memory that is there
// has been for kTimeSlicesPerSwap times as long, when nobody else has had anything to do for so
// long as it takes, or at once when it is of higher priority than the one that has the turn.
//
// In pairs, a second run has its gate open as well, where both together do more than in turns
// (pairs.h): of those that want the GPU the one that goes best with the first. Two runs of
// different priority are a pair only if the less important one has a limit, which is that of the
// GPU's processors then. A run is alone in its turn if those that it could be beside go better with
// each other. What is not known yet is learnt in turns.
#pragma once

#include <array>
#include <cstdint>

#include "common/scheduling/effective_priority.h"
#include "common/scheduling/pairs.h"

namespace cuspan::scheduling {

inline constexpr std::uint32_t kMaxSharingRuns = 16;
inline constexpr std::uint32_t kWhole = 1000;  // Of parts of a GPU's time.
inline constexpr std::uint32_t kNobody = ~std::uint32_t{0};
inline constexpr std::uint64_t kNever = ~std::uint64_t{0};

// All times are in nanoseconds, points of them since whenever the caller says, but not 0.
inline constexpr std::uint64_t kTimeSlice = 10'000'000;
inline constexpr std::uint64_t kIdleGrace = 200'000;
// How much longer than it said what a run has on the GPU may take before the next one goes ahead,
// and how long that is waited for at most.
inline constexpr std::uint64_t kLeavePatience = 2'000'000;
inline constexpr std::uint64_t kLongestLeave = 50'000'000;
// A run that does nothing in its turn for so long, though it wants to, was stopped: it loses the
// turn until it asks for it again.
inline constexpr std::uint64_t kLongestStall = 20'000'000;
// What is lately, and what is just now, to those who look at the parts of the runs.
inline constexpr std::uint64_t kNow = 1'000'000'000;
inline constexpr std::uint64_t kLately = 10'000'000'000;
// The memory that was brought to the GPU stays there for so many times what that took, and brings
// no more than so long with it.
inline constexpr std::uint64_t kTimeSlicesPerSwap = 20;
inline constexpr std::uint64_t kLongestSwap = 60'000'000'000;
// While some wait the decision is looked at as often as this: for one that has died.
inline constexpr std::uint64_t kLongestWithoutLook = 50'000'000;

// A truth in memory that others can write: whatever lies there is one.
using Flag = std::uint8_t;

// A run's part of the GPU's time, in which what is longer ago counts for less and less.
struct DecayingPart {
  double had = 0, time = 0;

  double Value() const { return time > 0 ? had / time : 0; }
  // It had `more_had` of so much more time; what was before `memory` hardly counts from then on.
  void Add(double more_had, double more_time, double memory) {
    had += (more_had - had * more_time) / (more_time + memory);
    time += (more_time - time * more_time) / (more_time + memory);
  }
};

struct SharingRun {
  // --- What it was promised.
  Flag present = 0;
  std::int32_t niceness = 0;          // As nice(1) has it: -20 is the most important.
  std::int32_t process_niceness = 0;  // Of the program's process.
  std::uint32_t quota = 0;            // At least so much of the GPU's time, in kWhole,
  std::uint32_t limit = kWhole;       // and at most so much.

  // --- What it is doing: told before each decision.
  Flag wants = 0;          // Has work that waits, or is on the GPU.
  Flag known = 0;          // How long its work takes alone is known,
  std::uint64_t done = 0;  // and of that so much (ns) has been done in all.
  Limits limits = Limits::kUnknown;
  Flag on_gpu = 0;               // Has work on the GPU,
  std::uint64_t busy = 0;        // as it had for so long in all,
  std::uint64_t asked = 0;       // How often it has asked for a decision itself.
  std::uint64_t done_by = 0;     // which should be done by then; 0: who knows.
  std::uint64_t idle_since = 0;  // Where it does not want.
  std::uint64_t used_at = 0;     // When it was seen on the GPU last.
  std::uint64_t swap = 0;        // Bringing its memory to the GPU takes so long; 0: it is there.

  // --- What was decided.
  Flag open = 0;  // It may hand work to the GPU.

  // --- What TimeSlices keeps about it.
  Flag wanted = 0;
  std::uint64_t busy_before = 0;
  std::uint64_t done_before = 0;
  double rate = 1;  // In its pair: normalised.
  std::uint64_t asked_before = 0;
  std::uint64_t stirred = 0;        // When it was last seen to use the GPU.
  Flag choked = 0;                  // Has had its limit.
  Flag stalled = 0;                 // Has its turn, wants the GPU, and does nothing.
  Flag overdue = 0;                 // Its time is over, but not what it has on the GPU.
  std::uint64_t waiting_since = 0;  // 0: it does not wait.
  std::uint64_t used = 0;           // GPU time,
  DecayingPart now, lately;         // and its parts, which decay in kNow and kLately.
  std::uint64_t turns = 0;          // How often it got the GPU,
  std::uint64_t preempted = 0;      // and how often another of higher priority took it away.
  std::uint64_t waited = 0;         // For the GPU, in all.
  double pass = 0;                  // GPU time by its weight.
  double average_wait = 0;          // In milliseconds, decaying.
  double owed = 0;                  // What its quota is behind (ns),
  double room = 0;                  // and what its limit leaves.
};

// Lower is more important.
inline std::int64_t NicenessOf(const SharingRun& run) {
  return std::int64_t{run.niceness} + run.process_niceness;
}

// Zeros, as in new shared memory, are its beginning, but for `holder`.
struct TimeSlices {
  std::array<SharingRun, kMaxSharingRuns> runs;
  std::uint32_t holder = kNobody;  // Who has the turn, or is about to.
  Flag holder_owed = 0;            // It has it by its quota: nobody takes it away.
  Flag preempting = 0;             // It waits for nobody, since all others are less important.
  double holder_bonus = 0;         // Steps of priority that it has in this turn for having waited.
  double virtual_time = 0;         // The pass of whoever wanted the GPU and had least.
  std::uint64_t time_slice_ends = 0;
  std::uint64_t swapped_at =
      0;  // When the turn was last given to a run whose memory was not there.
  std::uint64_t leave_limit = 0;  // Until then the holder waits for those who leave.
  std::uint64_t looked_at = 0;
  double decayed_wait = 0;    // In milliseconds.
  std::uint32_t waiting = 0;  // How many wait.

  // --- Of pairs.
  Flag pairs = 0;                   // Runs may be on the GPU in pairs.
  std::uint32_t partner = kNobody;  // Whose gate is open beside the holder's.
  // How often a partner had to make room for a better one, and what the last change was to gain,
  // and to cost (ns of work).
  std::uint64_t changes = 0;
  double last_gain = 0, last_cost = 0;
  std::array<std::array<PairRecord, kMaxSharingRuns>, kMaxSharingRuns> records;

  PairRecord& RecordOf(std::uint32_t a, std::uint32_t b) {
    return a < b ? records[a][b] : records[b][a];
  }
  // Another run has come to this place.
  void ForgetPairs(std::uint32_t run) {
    for (std::uint32_t other = 0; other < kMaxSharingRuns; ++other) RecordOf(run, other) = {};
  }
};

// Brings all accounts up to `now` and decides; to be called whenever what a run does has changed.
// Says when it is to be called again if nothing changes before; kNever where nobody waits.
std::uint64_t Decide(TimeSlices& slices, std::uint64_t now);

}  // namespace cuspan::scheduling

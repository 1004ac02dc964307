// File layout of a table of runs sharing a GPU. For share_table.cc and share_slot.cc.
#pragma once

#include <atomic>
#include <cstdint>

#include "common/scheduling/time_slices.h"
#include "protocol/sharing/share_table.h"
#include "structs.gen.h"

namespace cuspan::sharing {

// Must change with every change of the layout below.
inline constexpr std::uint64_t kMagic = 0x6375'7370'616e'000b;

// Locked bytes of the file: one for changing the table, and one per slot.
inline constexpr std::int64_t kTableByte = 0;
inline constexpr std::int64_t kFirstRunByte = 1;
inline constexpr std::int64_t kFirstSessionByte = kFirstRunByte + scheduling::kMaxSharingRuns;
inline constexpr std::int64_t kEndByte = kFirstSessionByte + kMaxSharingSessions;

// The run in a slot, for display.
struct RunName {
  char run[17];
  char user[33];
  char program[65];
};

// A session's state, written by the session, and the table's decisions about it.
struct alignas(64) SessionSlot {
  // Futex word: incremented with every change of `open`, and for other reasons to check the state.
  std::atomic<std::uint32_t> rung;
  std::atomic<std::uint32_t> open;  // It may submit work to the GPU.
  std::atomic<std::uint32_t> wants;
  std::atomic<std::uint64_t> idle_since;
  std::atomic<std::uint64_t> done_by;
  std::atomic<std::uint64_t> on_gpu_since;  // 0: it has no work on the GPU.
  std::atomic<std::uint64_t> busy;          // Total time of earlier work on the GPU.
  std::atomic<std::uint32_t> gated;         // Its work has to pass its gate.
  std::atomic<std::uint64_t> asked;         // Number of decisions requested by it.
  std::atomic<std::uint32_t> preemptible;   // A run of higher priority is present.
  std::atomic<std::uint64_t> memory;        // Bytes allocated: share_memory.h.
  std::atomic<std::uint64_t> fixed;         // Bytes that can not be swapped out.
  std::atomic<std::uint64_t> stuck;         // Bytes not evictable for now: an eviction failed.
  std::atomic<std::uint64_t> out;           // Bytes swapped out.
  std::atomic<std::uint64_t> refused;       // Bytes refused by the driver.
  std::atomic<std::uint64_t> evict;         // Bytes to be evicted for another run.
  std::atomic<std::uint64_t> done;          // Completed work, in ns of stand-alone time.
  std::atomic<std::uint32_t> known;         // The stand-alone time of its work is known.
  std::atomic<std::uint32_t> paired;        // Another run may be on the GPU as well.
  std::atomic<std::uint32_t> pairings;      // Number of times this has begun.
  std::atomic<std::uint32_t> bottleneck;    // Bottleneck of its work: scheduling::Bottleneck.
  // Written by the table.
  std::uint32_t taken;
  std::uint32_t run;     // Slot of its run.
  std::uint32_t serial;  // Serial number of the run in this slot.
};

struct Layout {
  std::uint64_t magic;
  std::uint64_t bytes;
  // Set while a process changes the table.
  std::atomic<std::uint32_t> changing;
  std::atomic<std::uint32_t> waiting;        // Number of waiting runs.
  std::uint32_t sessions_used;               // All slots from here on are free.
  std::atomic<std::uint64_t> next_decision;  // Next time a waiting session has to decide.
  std::uint64_t dead_sought;                 // Last search for dead processes.
  scheduling::TimeSlices turns;
  RunName names[scheduling::kMaxSharingRuns];

  std::uint64_t busy_before[scheduling::kMaxSharingRuns];  // Busy time of sessions that have left.
  std::uint32_t most_runs[scheduling::kMaxSharingRuns];
  std::uint64_t memory_caps[scheduling::kMaxSharingRuns];  // 0: no cap.
  std::uint32_t swaps[scheduling::kMaxSharingRuns];        // ShareTerms::swap.
  std::uint64_t gpu_memory;                                // Bytes.
  std::uint64_t swapped, swapping;  // Bytes moved recently, and the time it took (ns).
  std::uint32_t serials[scheduling::kMaxSharingRuns];  // Number of runs so far in the slot.
  SessionSlot sessions[kMaxSharingSessions];
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// Reads shared memory exactly once: another process may change it between check and use.
inline std::uint32_t Once(const std::uint32_t& word) {
  return *static_cast<const volatile std::uint32_t*>(&word);
}
// Slot of the session's run; kNobody if this run has left.
inline std::uint32_t RunOf(const Layout& table, const SessionSlot& session) {
  const std::uint32_t run = Once(session.run);
  const bool counts = Once(session.taken) != 0 && run < scheduling::kMaxSharingRuns &&
                      table.turns.runs[run].present && session.serial == table.serials[run];
  return counts ? run : scheduling::kNobody;
}

}  // namespace cuspan::sharing

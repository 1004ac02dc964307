// How a table of runs that share a GPU lies in its file. For share_table.cc and share_slot.cc.
#pragma once

#include <atomic>
#include <cstdint>

#include "common/scheduling/time_slices.h"
#include "protocol/sharing/share_table.h"
#include "structs.gen.h"

namespace cuspan::sharing {

// Changes with every change of what is below.
inline constexpr std::uint64_t kMagic = 0x6375'7370'616e'000b;

// The bytes of the file that are locked: by who changes the table, and for each place.
inline constexpr std::int64_t kTableByte = 0;
inline constexpr std::int64_t kFirstRunByte = 1;
inline constexpr std::int64_t kFirstSessionByte = kFirstRunByte + scheduling::kMaxSharingRuns;
inline constexpr std::int64_t kEndByte = kFirstSessionByte + kMaxSharingSessions;

// Who has the run's place, for people.
struct RunName {
  char run[17];
  char user[33];
  char program[65];
};

// What a session says of itself, and what it is told; the rest is the table's.
struct alignas(64) SessionSlot {
  // Changed with every change of `open`, and when there is another reason to look: slept on.
  std::atomic<std::uint32_t> rung;
  std::atomic<std::uint32_t> open;  // It may hand work to the GPU.
  std::atomic<std::uint32_t> wants;
  std::atomic<std::uint64_t> idle_since;
  std::atomic<std::uint64_t> done_by;
  std::atomic<std::uint64_t> on_gpu_since;  // 0: it has nothing there.
  std::atomic<std::uint64_t> busy;          // How long it had something there before, in all.
  std::atomic<std::uint32_t> gated;         // Its work has to pass its gate.
  std::atomic<std::uint64_t> asked;         // How often it has asked for a decision.
  std::atomic<std::uint32_t> preemptible;   // A run of higher priority is here.
  std::atomic<std::uint64_t> memory;        // Bytes that it has: share_memory.h.
  std::atomic<std::uint64_t> fixed;         // So many of them can not be brought to the host.
  std::atomic<std::uint64_t> stuck;         // Nor so many, for now: they were asked for in vain.
  std::atomic<std::uint64_t> out;           // So many of them are not on the GPU,
  std::atomic<std::uint64_t> refused;  // and the driver has no room for so many, whatever is known.
  std::atomic<std::uint64_t> evict;    // Another run needs so much of the room of the rest.
  std::atomic<std::uint64_t> done;     // Work, by how long it takes alone.
  std::atomic<std::uint32_t> known;    // That is known of what it does.
  std::atomic<std::uint32_t> paired;   // Another run may be on the GPU as well,
  std::atomic<std::uint32_t> pairings;  // and how often that has begun.
  std::atomic<std::uint32_t> limits;    // What limits its work: scheduling::Limits.
  // Of the table.
  std::uint32_t taken;
  std::uint32_t run;     // Its place,
  std::uint32_t serial;  // and which of those that had it.
};

struct Layout {
  std::uint64_t magic;
  std::uint64_t bytes;
  // Set by who changes the table, as long as it does.
  std::atomic<std::uint32_t> changing;
  std::atomic<std::uint32_t> waiting;    // Runs.
  std::uint32_t sessions_used;           // The places behind these are free.
  std::atomic<std::uint64_t> look_next;  // When one of those who wait has to decide again.
  std::uint64_t dead_sought;             // When places of the dead were looked for.
  scheduling::TimeSlices turns;
  RunName names[scheduling::kMaxSharingRuns];

  std::uint64_t busy_before[scheduling::kMaxSharingRuns];  // Of sessions that have left.
  std::uint32_t most_runs[scheduling::kMaxSharingRuns];
  std::uint64_t memory_caps[scheduling::kMaxSharingRuns];  // 0: none.
  std::uint32_t swaps[scheduling::kMaxSharingRuns];        // ShareTerms::swap.
  std::uint64_t gpu_memory;                                // Bytes.
  std::uint64_t swapped, swapping;  // Bytes that were moved lately, and how long that took (ns).
  std::uint32_t serials[scheduling::kMaxSharingRuns];  // How often the place was taken.
  SessionSlot sessions[kMaxSharingSessions];
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// What lies there at one moment: others may write there, and what was checked is to be what is
// used.
inline std::uint32_t Once(const std::uint32_t& word) {
  return *static_cast<const volatile std::uint32_t*>(&word);
}
// The place of the run that a session is of; kNobody if it is none's that is there.
inline std::uint32_t RunOf(const Layout& table, const SessionSlot& session) {
  const std::uint32_t run = Once(session.run);
  const bool counts = Once(session.taken) != 0 && run < scheduling::kMaxSharingRuns &&
                      table.turns.runs[run].present && session.serial == table.serials[run];
  return counts ? run : scheduling::kNobody;
}

}  // namespace cuspan::sharing

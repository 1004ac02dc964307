#include "protocol/sharing/memory_room.h"

#include <algorithm>
#include <iterator>

namespace cuspan::sharing {
namespace {

// On an H200 a context takes about half of this.
constexpr std::uint64_t kMaxContextBytes = std::uint64_t{1} << 30;
constexpr std::uint64_t kContextPart = 32;
// Bytes per ns before any measurement. PCIe 5 x16 reaches 50 (measured on an H200), PCIe 4 half as
// much.
constexpr std::uint64_t kAssumedRate = 25;
// Bytes of swapping averaged; older measurements decay.
constexpr std::uint64_t kSwapMemory = std::uint64_t{64} << 30;

// Saturating: other processes may write any value.
std::uint64_t Plus(std::uint64_t a, std::uint64_t b) {
  const std::uint64_t sum = a + b;
  return sum < a ? ~std::uint64_t{0} : sum;
}
constexpr std::uint32_t kNobody = scheduling::kNobody;
bool SomeSwap(const Layout& table) {
  return std::any_of(std::begin(table.swaps), std::end(table.swaps), [&](const auto& swaps) {
    return swaps != 0 && table.turns.runs[&swaps - table.swaps].present;
  });
}
// Number of contexts: one per session, and one for a run without a session yet.
std::uint64_t ContextsOf(const Layout& table) {
  std::uint64_t of_runs[scheduling::kMaxSharingRuns] = {};
  for (const SessionSlot& session : table.sessions)
    if (const std::uint32_t run = RunOf(table, session); run != kNobody) ++of_runs[run];
  std::uint64_t contexts = 0;
  for (std::uint32_t i = 0; i < scheduling::kMaxSharingRuns; ++i)
    if (table.turns.runs[i].present) contexts += std::max<std::uint64_t>(of_runs[i], 1);
  return contexts;
}
std::uint64_t Minus(std::uint64_t a, std::uint64_t b) { return a > b ? a - b : 0; }

}  // namespace

std::uint64_t ContextBytes(std::uint64_t gpu_memory) {
  return std::min(kMaxContextBytes, gpu_memory / kContextPart);
}

MemoryRoom RoomOf(const Layout& table, std::uint32_t run) {
  MemoryRoom room;
  if (run >= scheduling::kMaxSharingRuns) return room;
  room.cap = table.memory_caps[run];
  std::uint32_t present = 0;
  std::uint64_t kept = 0, used_without_cap = 0, others_fixed = 0;
  for (std::uint32_t i = 0; i < scheduling::kMaxSharingRuns; ++i) {
    if (!table.turns.runs[i].present) continue;
    ++present;
    kept = Plus(kept, Plus(table.memory_caps[i], ContextBytes(table.gpu_memory)));
  }
  for (const SessionSlot& session : table.sessions) {
    const std::uint32_t owner = RunOf(table, session);
    if (owner == kNobody) continue;
    const std::uint64_t bytes = session.memory.load(std::memory_order_relaxed);
    if (owner == run) room.used = Plus(room.used, bytes);
    if (table.memory_caps[owner] != 0) continue;
    used_without_cap = Plus(used_without_cap, bytes);
    if (owner != run)
      others_fixed = Plus(others_fixed, session.fixed.load(std::memory_order_relaxed));
  }
  if (table.swaps[run] != 0 && room.cap == 0) {
    // All other runs without a cap swap out memory if necessary, including future ones.
    const std::uint64_t contexts = std::max<std::uint64_t>(
        ContextsOf(table), std::min(table.most_runs[run], scheduling::kMaxSharingRuns));
    kept = Plus(kept, (contexts - present) * ContextBytes(table.gpu_memory));
    room.left = Minus(Minus(table.gpu_memory, kept), Plus(room.used, others_fixed));
    room.made = true;
    return room;
  }
  const bool some_capped = std::any_of(
      std::begin(table.memory_caps), std::end(table.memory_caps), [&](const std::uint64_t& cap) {
        return cap != 0 && table.turns.runs[&cap - table.memory_caps].present;
      });
  if (room.cap != 0)
    room.left = Minus(room.cap, room.used), room.made = SomeSwap(table);
  else if (some_capped)
    room.left = Minus(Minus(table.gpu_memory, kept), used_without_cap);
  return room;
}

std::uint64_t FixedRoomOf(const Layout& table, std::uint32_t run) {
  std::uint64_t least = RoomOf(table, run).left;
  if (table.memory_caps[run] != 0 || table.swaps[run] == 0) return least;
  for (std::uint32_t other = 0; other < scheduling::kMaxSharingRuns; ++other)
    if (other != run && table.turns.runs[other].present && table.swaps[other] != 0)
      least = std::min(least, RoomOf(table, other).left);
  return least;
}

SwapNeed SwapNeedOf(const Layout& table, std::uint32_t run, bool all) {
  SwapNeed need;
  std::uint64_t there = 0, room = table.gpu_memory;
  for (std::uint32_t i = 0; i < scheduling::kMaxSharingRuns; ++i)
    if (table.turns.runs[i].present) room = Minus(room, table.memory_caps[i]);
  room = Minus(room, ContextsOf(table) * ContextBytes(table.gpu_memory));
  for (const SessionSlot& session : table.sessions) {
    const std::uint32_t owner = RunOf(table, session);
    if (owner == kNobody) continue;
    there = Plus(there, session.refused.load(std::memory_order_relaxed));
    if (table.memory_caps[owner] != 0) continue;
    const std::uint64_t bytes = session.memory.load(std::memory_order_relaxed);
    const std::uint64_t out = std::min(bytes, session.out.load(std::memory_order_relaxed));
    // Memory to be evicted counts as swapped out. Otherwise its run would get the next time slice
    // at once.
    const std::uint64_t going =
        std::min(bytes - out, session.evict.load(std::memory_order_relaxed));
    if (owner == run) need.out = Plus(need.out, out + going);
    there = Plus(there, all && owner == run ? bytes : bytes - out);
  }
  if (SomeSwap(table)) need.lacks = Minus(there, room);
  return need;
}

std::uint64_t SwappedOf(const Layout& table, std::uint32_t run) {
  std::uint64_t out = 0;
  for (const SessionSlot& session : table.sessions)
    if (run != kNobody && RunOf(table, session) == run)
      out = Plus(out, std::min(session.memory.load(std::memory_order_relaxed),
                               session.out.load(std::memory_order_relaxed)));
  return out;
}

std::uint64_t TimeToSwap(const Layout& table, std::uint64_t bytes) {
  if (table.swapped == 0 || table.swapping == 0) return bytes / kAssumedRate;
  const double rate = static_cast<double>(table.swapping) / static_cast<double>(table.swapped);
  // At most an hour, for any contents of the table.
  return static_cast<std::uint64_t>(std::min(static_cast<double>(bytes) * rate, 3.6e12));
}

void LearnSwap(Layout& table, std::uint64_t bytes, std::uint64_t nanoseconds) {
  table.swapped = Plus(table.swapped, bytes);
  table.swapping = Plus(table.swapping, nanoseconds);
  while (table.swapped > kSwapMemory) table.swapped /= 2, table.swapping /= 2;
}

}  // namespace cuspan::sharing

#include "protocol/sharing/memory_room.h"

#include <algorithm>
#include <iterator>

namespace cuspan::sharing {
namespace {

// Of an H200 a context takes about half of this.
constexpr std::uint64_t kMostContextBytes = std::uint64_t{1} << 30;
constexpr std::uint64_t kContextPart = 32;

// Sums of what others may have written.
std::uint64_t Plus(std::uint64_t a, std::uint64_t b) {
  const std::uint64_t sum = a + b;
  return sum < a ? ~std::uint64_t{0} : sum;
}
std::uint64_t Minus(std::uint64_t a, std::uint64_t b) { return a > b ? a - b : 0; }

}  // namespace

std::uint64_t ContextBytes(std::uint64_t gpu_memory) {
  return std::min(kMostContextBytes, gpu_memory / kContextPart);
}

MemoryRoom RoomOf(const Layout& table, std::uint32_t run) {
  MemoryRoom room;
  if (run >= scheduling::kMostSharingRuns) return room;
  room.cap = table.memory_caps[run];
  std::uint64_t kept = 0, used_without_cap = 0;
  for (std::uint32_t i = 0; i < scheduling::kMostSharingRuns; ++i) {
    if (!table.turns.runs[i].present) continue;
    kept = Plus(kept, Plus(table.memory_caps[i], ContextBytes(table.gpu_memory)));
  }
  for (const SessionPlace& session : table.sessions) {
    const std::uint32_t owner = session.run;
    if (session.taken == 0 || owner >= scheduling::kMostSharingRuns ||
        !table.turns.runs[owner].present || session.serial != table.serials[owner])
      continue;
    const std::uint64_t bytes = session.memory.load(std::memory_order_relaxed);
    if (owner == run) room.used = Plus(room.used, bytes);
    if (table.memory_caps[owner] == 0) used_without_cap = Plus(used_without_cap, bytes);
  }
  const bool some_capped = std::any_of(
      std::begin(table.memory_caps), std::end(table.memory_caps), [&](const std::uint64_t& cap) {
        return cap != 0 && table.turns.runs[&cap - table.memory_caps].present;
      });
  if (room.cap != 0)
    room.left = Minus(room.cap, room.used);
  else if (some_capped)
    room.left = Minus(Minus(table.gpu_memory, kept), used_without_cap);
  return room;
}

}  // namespace cuspan::sharing

#include "proxy/softgpu/rt/code_ranges.h"

#include <atomic>
#include <utility>

namespace cuspan::softgpu {
namespace {

constexpr int kSlots = 8192;

struct Slot {
  std::atomic<std::uint64_t> begin{0};  // 0: unused.
  std::atomic<std::uint64_t> end{0};    // 0 while it is being filled.
};
Slot g_slots[kSlots];
std::atomic<int> g_used{0};  // Slots from here on have never been used.

}  // namespace

CodeRange::CodeRange(std::uint64_t begin, std::uint64_t end) : slot_(-1) {
  for (int i = 0; i < kSlots; ++i) {
    std::uint64_t unused = 0;
    if (!g_slots[i].begin.compare_exchange_strong(unused, begin)) continue;
    g_slots[i].end.store(end);
    int used = g_used.load();
    while (used < i + 1 && !g_used.compare_exchange_weak(used, i + 1)) {
    }
    slot_ = i;
    return;
  }
}

CodeRange::~CodeRange() {
  if (slot_ < 0) return;
  g_slots[slot_].end.store(0);
  g_slots[slot_].begin.store(0);
}

CodeRange::CodeRange(CodeRange&& other) noexcept : slot_(std::exchange(other.slot_, -1)) {}

bool CodeRange::Contains(std::uint64_t address) {
  const int used = g_used.load();
  for (int i = 0; i < used; ++i) {
    const std::uint64_t end = g_slots[i].end.load();
    if (address < end && address >= g_slots[i].begin.load()) return true;
  }
  return false;
}

}  // namespace cuspan::softgpu

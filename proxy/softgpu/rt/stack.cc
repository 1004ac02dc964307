#include "proxy/softgpu/rt/stack.h"

#include <sys/mman.h>

#include <atomic>
#include <bit>
#include <cstdio>

#include "common/log.h"
#include "proxy/softgpu/rt/sanitizer.h"

namespace cuspan::softgpu {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kSmallestStack = 16 * 1024;
// Bytes mapped at a time. Stacks of one arena are adjacent.
constexpr std::size_t kArenaBytes = std::size_t{2} << 20;
constexpr std::size_t kStagger = 192;

// Limits guard pages. Each inaccessible page splits a mapping, and the kernel limits a process's
// mappings; guards may use half of them. Further stacks have no guard.
class GuardBudget {
 public:
  static GuardBudget& Get() {
    static auto* const budget = new GuardBudget;
    return *budget;
  }
  bool Acquire(std::size_t guards) {
    if (left_.fetch_sub(static_cast<long>(2 * guards)) >= static_cast<long>(2 * guards)) {
      return true;
    }
    Give(guards);
    return false;
  }
  void Give(std::size_t guards) { left_.fetch_add(static_cast<long>(2 * guards)); }

 private:
  GuardBudget() {
    long most = 65530;  // The kernel's default of vm.max_map_count.
    if (std::FILE* file = std::fopen("/proc/sys/vm/max_map_count", "re"); file != nullptr) {
      if (std::fscanf(file, "%ld", &most) != 1) most = 65530;
      std::fclose(file);
    }
    left_ = most / 2;
  }
  std::atomic<long> left_;
};

}  // namespace

bool Stack::InGuard(const void* address) const {
  const auto* byte = static_cast<const std::uint8_t*>(address);
  return guarded && byte >= low - kPage && byte < low;
}

StackPool::~StackPool() {
  for (SizeClass& size_class : classes_) {
    for (Arena& arena : size_class.arenas) {
      for (const auto& stack : arena.stacks) sanitizer::DestroyFiber(stack->sanitizer);
      munmap(arena.base, arena.bytes);
      GuardBudget::Get().Give(arena.guards);
    }
  }
}

Stack* StackPool::Acquire(std::size_t bytes) {
  bytes = std::bit_ceil(std::max(bytes, kSmallestStack));
  const int index = std::countr_zero(bytes / kSmallestStack);
  if (index >= kClasses) return nullptr;
  SizeClass& size_class = classes_[index];
  if (size_class.unused.empty() && !Grow(size_class, bytes)) return nullptr;
  Stack* stack = size_class.unused.back();
  size_class.unused.pop_back();
  return stack;
}

void StackPool::Give(Stack* stack) {
  // Frames on it were mostly abandoned, not unwound.
  sanitizer::Unpoison(stack->low, stack->bytes);
  sanitizer::DestroyFiber(stack->sanitizer);
  stack->sanitizer = nullptr;
  classes_[std::countr_zero(stack->bytes / kSmallestStack)].unused.push_back(stack);
}

bool StackPool::Grow(SizeClass& size_class, std::size_t bytes) {
  const std::size_t stride = bytes + kPage;
  const std::size_t count = std::max<std::size_t>(kArenaBytes / stride, 1);
  Arena arena{nullptr, count * stride, 0, {}};
  void* base = mmap(nullptr, arena.bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (base == MAP_FAILED) return false;
  arena.base = static_cast<std::uint8_t*>(base);
  if (GuardBudget::Get().Acquire(count)) {
    arena.guards = count;
  } else {
    LogDebug("software GPU: stacks without guard pages: vm.max_map_count allows no more mappings");
  }
  size_class.unused.reserve(size_class.unused.size() + count);
  for (std::size_t i = 0; i < count; ++i) {
    std::uint8_t* const bottom = arena.base + i * stride;
    const bool guarded = arena.guards != 0 && mprotect(bottom, kPage, PROT_NONE) == 0;
    const std::size_t stagger = (kStagger * i) % kPage;
    arena.stacks.push_back(std::make_unique<Stack>(
        Stack{bottom + kPage, bottom + stride - stagger, bytes, guarded, nullptr}));
  }
  // Stacks are taken from the end: neighbours in a block become neighbours in memory.
  for (std::size_t i = count; i-- > 0;) size_class.unused.push_back(arena.stacks[i].get());
  size_class.arenas.push_back(std::move(arena));
  return true;
}

}  // namespace cuspan::softgpu

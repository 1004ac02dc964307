// Stacks for fibers: pieces of large mappings, each with an inaccessible page
// below it, kept for reuse. Their tops are staggered, because frames at equal
// offsets of 1024 stacks would all fall into one set of the first-level cache
// (measured: three times slower). For the same reason they lie an odd number of
// pages apart, which spreads them over the sets of the translation buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/status.h"

namespace cuspan::softgpu {

struct Stack {
  std::uint8_t* low;  // Lowest usable byte.
  std::uint8_t* top;  // Where the first frame goes; 16-aligned, staggered.
  std::size_t bytes;  // From `low` to the end, the stagger included.
  bool guarded;       // Whether the page below `low` is inaccessible.
  void* sanitizer;    // The thread sanitizer's fiber of this stack, if any.

  // Whether `address` lies in the guard page, so that touching it meant an overflow.
  bool InGuard(const void* address) const;
};

inline constexpr std::size_t kLargestStack = std::size_t{16} << 20;

// Stacks of one worker thread; only that thread calls. Memory is touched by
// use only and given back by the destructor.
class StackPool {
 public:
  StackPool() = default;
  ~StackPool();
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;

  // A stack of at least `bytes` (at most kLargestStack), or null when the
  // system gives no more memory. Give it back when nothing runs on it.
  Stack* Take(std::size_t bytes);
  void Give(Stack* stack);

 private:
  struct Arena {
    std::uint8_t* base;
    std::size_t bytes;
    std::size_t guards;
    std::vector<std::unique_ptr<Stack>> stacks;
  };
  struct SizeClass {
    std::vector<Stack*> unused;
    std::vector<Arena> arenas;
  };

  bool Grow(SizeClass& size_class, std::size_t bytes);

  static constexpr int kClasses = 11;  // 16 KiB … 16 MiB.
  SizeClass classes_[kClasses];
};

}  // namespace cuspan::softgpu

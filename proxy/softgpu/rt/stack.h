// Stacks for fibers: pieces of large mappings, kept for reuse. Each has an inaccessible page below
// it. Their tops are staggered: otherwise frames at equal offsets of 1024 stacks would fall into
// one set of the first-level cache (measured: three times slower). For the same reason they are an
// odd number of pages apart, distributing them over the sets of the TLB.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/status.h"

namespace cuspan::softgpu {

struct Stack {
  std::uint8_t* low;  // Lowest usable byte.
  std::uint8_t* top;  // Start of the first frame; 16-aligned, staggered.
  std::size_t bytes;  // From `low` to the end, including the stagger.
  bool guarded;       // True if the page below `low` is inaccessible.
  void* sanitizer;    // The thread sanitizer's fiber of this stack, if any.

  // True if `address` is in the guard page: accessing it was an overflow.
  bool InGuard(const void* address) const;
};

inline constexpr std::size_t kLargestStack = std::size_t{16} << 20;

// Stacks of one worker thread. Threads: only this one. Memory is touched only by use, and freed by
// the destructor.
class StackPool {
 public:
  StackPool() = default;
  ~StackPool();
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;

  // Returns a stack of at least `bytes` (at most kLargestStack), or null without memory. Given back
  // once nothing runs on it.
  Stack* Acquire(std::size_t bytes);
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

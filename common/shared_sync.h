// What the thread sanitizer can not see: order between accesses to one piece of
// shared memory that a process has mapped at several addresses, as both ends of a
// channel in one process do. Nothing at all in ordinary builds.
#pragma once

#include <cstdint>

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace cuspan {

// Stands for everything that is ordered by one piece of shared memory. All that
// a thread did before Release is seen by a thread after its next Acquire. Copies
// made from one identity are the same. Threads: any.
class SharedSync {
 public:
  explicit SharedSync([[maybe_unused]] std::uint64_t identity) {
#if defined(__SANITIZE_THREAD__)
    static char points[4096];
    point_ = &points[identity % sizeof points];
#endif
  }
  void Acquire() const {
#if defined(__SANITIZE_THREAD__)
    __tsan_acquire(point_);
#endif
  }
  void Release() const {
#if defined(__SANITIZE_THREAD__)
    __tsan_release(point_);
#endif
  }

 private:
#if defined(__SANITIZE_THREAD__)
  void* point_;
#endif
};

}  // namespace cuspan

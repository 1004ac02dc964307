// Declares an order invisible to the thread sanitizer: accesses to shared memory mapped at several
// addresses of one process. Both ends of a channel in one process are an example. Empty in ordinary
// builds.
#pragma once

#include <cstdint>

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace cuspan {

// Represents the order of all accesses to one piece of shared memory. A thread's accesses before
// Release happen before another thread's accesses after its next Acquire. Objects made from the
// same identity are equivalent. Threads: any.
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

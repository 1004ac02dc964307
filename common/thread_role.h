// Roles of threads, checked by clang like mutexes (mutex.h). Only functions requiring a role use
// the variables guarded by it, and only the thread with the role calls these functions.
#pragma once

#include <cassert>

#include "common/mutex.h"

namespace cuspan {

// `Tag` makes roles distinct. A thread may have several roles. Several threads may have the same
// role, each for its own objects.
template <typename Tag>
class CUSPAN_CAPABILITY("role") ThreadRole {
 public:
  constexpr ThreadRole() = default;
  ThreadRole(const ThreadRole&) = delete;
  ThreadRole& operator=(const ThreadRole&) = delete;

  // Tells the analysis that the calling thread has the role. For functions called by a template or
  // a std::function: the analysis does not see these callers. Builds with assertions check it.
  void AssertHeld() const CUSPAN_ASSERT_CAPABILITY(this) { assert(held != 0); }

  // The thread has the role during the lifetime of this object.
  class CUSPAN_SCOPED_CAPABILITY Scope {
   public:
    explicit Scope([[maybe_unused]] ThreadRole& role) CUSPAN_ACQUIRE(role) { ++held; }
    ~Scope() CUSPAN_RELEASE() { --held; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
  };

 private:
  static inline thread_local int held = 0;
};

}  // namespace cuspan

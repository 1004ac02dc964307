// Roles of threads, checked by clang like mutexes (mutex.h). Only functions that require a role use
// the variables guarded by it, and only the thread with the role calls these functions.
#pragma once

#include <cassert>

#include "common/mutex.h"

namespace cuspan {

// `Tag` tells roles apart. A thread may have several, and several threads the same one, each for
// objects of its own.
template <typename Tag>
class CUSPAN_CAPABILITY("role") ThreadRole {
 public:
  constexpr ThreadRole() = default;
  ThreadRole(const ThreadRole&) = delete;
  ThreadRole& operator=(const ThreadRole&) = delete;

  // Tells the analysis that the calling thread has the role. For functions called by a template or
  // a std::function: the analysis does not see these callers. Builds with assertions check it.
  void AssertHeld() const CUSPAN_ASSERT_CAPABILITY(this) { assert(held != 0); }

  // The thread has the role while this lives.
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

// What one thread of several does alone: checked by clang as mutexes are (mutex.h). A variable that
// is guarded by a role is used by functions that require the role, and these are called by the
// thread that has it.
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

  // Tells the analysis that the calling thread has the role, in a function whose caller it does not
  // see: one that a template or a std::function calls. Builds with assertions check it.
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

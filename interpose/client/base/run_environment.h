// The variables that make a process part of its run, as this process was started with them: a
// program may change or clear its environment, and its children belong to the run all the same.
#pragma once

#include <cstddef>

namespace cuspan {

// CUSPAN_SOCKET and CUSPAN_SECRET; empty where the process was started outside of a run. Any
// thread, from the library's first constructor on. Valid as long as the process lives.
const char* RunSocket();
const char* RunSecret();

// An environment for a program that this process starts. It is the given one, unless that has lost
// variables of the run: then those are added. It is left as it is if it has another run's
// CUSPAN_SOCKET, or an empty one, and if this process has become another user's.
//
// Safe between vfork and exec: no allocation, no C library, no errors.
class ChildEnvironment {
 public:
  // `environment` is as execve takes it, null as well, and outlives this.
  explicit ChildEnvironment(char* const* environment);
  // True if variables of the run are missing.
  bool incomplete() const { return incomplete_; }
  // Bytes that Complete needs, aligned as pointers are.
  std::size_t bytes() const { return bytes_; }
  // Makes the complete environment in `memory`, which has room for bytes().
  char** Complete(void* memory) const;

 private:
  char* const* given_;
  const char* preload_ = nullptr;  // Values in `given_`; null: there is none, or it is complete.
  const char* path_ = nullptr;
  bool add_preload_ = false;
  bool add_path_ = false;
  bool add_run_ = false;  // CUSPAN_SOCKET and all that goes with it.
  bool incomplete_ = false;
  std::size_t bytes_ = 0;
};

}  // namespace cuspan

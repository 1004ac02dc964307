// Variables binding a process to its run, saved at its start. A program may change or clear its
// environment; its children belong to the run nevertheless.
#pragma once

#include <cstddef>

namespace cuspan {

// CUSPAN_SOCKET and CUSPAN_SECRET; empty in a process started outside of a run. Threads: any, from
// the library's first constructor on. Valid as long as the process lives.
const char* RunSocket();
const char* RunSecret();

// Environment for a program started by this process: the given one, with missing variables of the
// run added. It stays unchanged if its CUSPAN_SOCKET is empty or another run's, or if this process
// has changed its user.
//
// Safe between vfork and exec: no allocation, no C library, no errors.
class ChildEnvironment {
 public:
  // `environment`: as for execve, may be null, outlives this object.
  explicit ChildEnvironment(char* const* environment);
  // True if variables of the run are missing.
  bool incomplete() const { return incomplete_; }
  // Bytes needed by Complete, aligned for pointers.
  std::size_t bytes() const { return bytes_; }
  // Builds the complete environment in `memory` of at least bytes() bytes.
  char** Complete(void* memory) const;

 private:
  char* const* given_;
  const char* preload_ = nullptr;  // Values in `given_`; null if absent.
  const char* path_ = nullptr;
  bool add_preload_ = false;
  bool add_path_ = false;
  bool add_run_ = false;  // CUSPAN_SOCKET and the other CUSPAN_ variables.
  bool incomplete_ = false;
  std::size_t bytes_ = 0;
};

}  // namespace cuspan

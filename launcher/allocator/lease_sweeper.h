// A process started by an agent and outliving it. If the agent dies without giving back its locks,
// the kernel releases them, and this process removes their files.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>

#include "common/status.h"
#include "common/unique_fd.h"

namespace cuspan {

class LeaseSweeper {
 public:
  // Starts it for the locks of `host`. Call it while this process has one thread and no MPI.
  static Result<LeaseSweeper> Start(const std::string& host);
  LeaseSweeper(LeaseSweeper&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)), alive_(std::move(other.alive_)) {}
  LeaseSweeper& operator=(LeaseSweeper&&) = delete;
  // Ends it: the agent has released its locks.
  ~LeaseSweeper();

 private:
  LeaseSweeper(pid_t pid, UniqueFd alive) : pid_(pid), alive_(std::move(alive)) {}
  pid_t pid_ = -1;
  UniqueFd alive_;  // Hangs up if this process dies; a byte ends the sweeper.
};

}  // namespace cuspan

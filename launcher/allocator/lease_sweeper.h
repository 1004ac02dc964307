// A process beside an agent that outlives it: when the agent dies without having given back its
// locks, which the kernel has done then, it removes their files.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>

#include "common/status.h"
#include "common/unique_fd.h"

namespace cuspan {

class LeaseSweeper {
 public:
  // For the locks of `host`. To be called while this process has one thread, and no MPI.
  static Result<LeaseSweeper> Start(const std::string& host);
  LeaseSweeper(LeaseSweeper&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)), alive_(std::move(other.alive_)) {}
  LeaseSweeper& operator=(LeaseSweeper&&) = delete;
  // Ends it: there is nothing for it to do.
  ~LeaseSweeper();

 private:
  LeaseSweeper(pid_t pid, UniqueFd alive) : pid_(pid), alive_(std::move(alive)) {}
  pid_t pid_ = -1;
  UniqueFd alive_;  // Its other end hangs up when we die; a byte says that all is in order.
};

}  // namespace cuspan

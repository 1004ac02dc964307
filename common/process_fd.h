// A pidfd of a child process; it becomes readable when the process ends.
#pragma once

#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "common/unique_fd.h"

namespace cuspan {

// Closed on exec. If it fails, the result is invalid and errno is set. Called by number: glibc 2.36
// declares the function without C linkage.
inline UniqueFd OpenProcess(pid_t pid) {
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

}  // namespace cuspan

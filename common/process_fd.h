// A child process as a descriptor, which becomes readable when it ends.
#pragma once

#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "common/unique_fd.h"

namespace cuspan {

// Closed on exec; invalid, with errno set, when it can not be had. By number:
// glibc 2.36 declares the function without C linkage.
inline UniqueFd OpenProcess(pid_t pid) {
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

}  // namespace cuspan

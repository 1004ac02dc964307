// Text for the end of a process.
#pragma once

#include <sys/wait.h>

#include <cstring>
#include <string>

#include "common/format.h"

namespace cuspan {

// Text for a status from waitpid, to follow the process's name: "was killed by signal 9 (Killed)".
inline std::string DescribeExit(int wait_status) {
  if (WIFSIGNALED(wait_status))
    return Format("was killed by signal {} ({})", WTERMSIG(wait_status),
                  ::strsignal(WTERMSIG(wait_status)));
  return Format("exited with status {}", WEXITSTATUS(wait_status));
}

}  // namespace cuspan

// How a process ended, in words.
#pragma once

#include <sys/wait.h>

#include <cstring>
#include <string>

#include "common/format.h"

namespace cuspan {

// What waitpid told, to follow the process's name: "was killed by signal 9 (Killed)".
inline std::string DescribeExit(int wait_status) {
  if (WIFSIGNALED(wait_status))
    return Format("was killed by signal {} ({})", WTERMSIG(wait_status),
                  ::strsignal(WTERMSIG(wait_status)));
  return Format("exited with status {}", WEXITSTATUS(wait_status));
}

}  // namespace cuspan

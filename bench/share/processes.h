// The processes of a run, whoever their parents are by now.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace cuspan::bench::share {

struct Process {
  pid_t pid = 0;
  std::string name;  // At most 15 characters.
};

// Those whose environment this process may read, and that have `entry`, a NAME=VALUE, in their
// environment; in any order. A process that has ended and was not waited for has none.
std::vector<Process> ProcessesWith(const std::string& entry);

}  // namespace cuspan::bench::share

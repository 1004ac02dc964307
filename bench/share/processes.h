// Processes of a run, regardless of their current parents.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace cuspan::bench::share {

struct Process {
  pid_t pid = 0;
  std::string name;  // At most 15 characters.
};

// Processes with `entry`, a NAME=VALUE, in their environment, if this process may read it. In any
// order. Zombies have no environment.
std::vector<Process> ProcessesWith(const std::string& entry);

}  // namespace cuspan::bench::share

// Agents of a run, as seen by one of its processes, with data from the kernel.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

#include "common/status.h"

namespace cuspan::bench::agents {

struct Agent {
  pid_t pid = -1;
  std::uint64_t processor_nanoseconds = 0;  // All threads, since its start.
  std::uint64_t private_bytes = 0;          // Memory not shared with others.
  std::uint64_t sockets = 0;                // Open sockets of any kind.
};

// Agents below the process `root`. The first is the head agent, as the oldest one. kNotFound if
// there are none.
Result<std::vector<Agent>> FindAgents(pid_t root);

}  // namespace cuspan::bench::agents

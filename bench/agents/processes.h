// The agents of a run, seen from a process of it: what the kernel tells of each.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

#include "common/status.h"

namespace cuspan::bench::agents {

struct Agent {
  pid_t pid = -1;
  std::uint64_t processor_nanoseconds = 0;  // Since its start, of all its threads.
  std::uint64_t private_bytes = 0;          // Memory that it shares with nobody.
  std::uint64_t sockets = 0;                // Open, of any kind.
};

// Those below the process `root`; the first is the head agent, which has been there longest.
// kNotFound where there are none.
Result<std::vector<Agent>> FindAgents(pid_t root);

}  // namespace cuspan::bench::agents

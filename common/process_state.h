// The kernel's information about another process of this node.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace cuspan {

// True if the process is stopped at this moment, by a signal or a debugger. False if it runs, has
// ended, or cannot be queried. Threads: any.
bool IsStopped(pid_t pid);

// Signals pending for the process as a whole, bit n - 1 for signal n; 0 if it cannot be queried.
// Threads: any.
std::uint64_t PendingSignals(pid_t pid);

// True if a child of the process has not ended; also if it cannot be queried. Threads: any.
bool HasLivingChild(pid_t pid);

}  // namespace cuspan

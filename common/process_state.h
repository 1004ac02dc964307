// What the kernel says about another process of this node.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace cuspan {

// True if the process is stopped at this moment, by a signal or a debugger; false if it runs, has
// ended, or cannot be asked about. Any thread.
bool IsStopped(pid_t pid);

// Signals that are pending for the process as a whole, bit n - 1 for signal n; 0 if it cannot be
// asked about. Any thread.
std::uint64_t PendingSignals(pid_t pid);

// True if a child of the process has not ended; also if it cannot be asked about. Any thread.
bool HasLivingChild(pid_t pid);

}  // namespace cuspan

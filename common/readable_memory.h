// Memory of this process that may not be there: pointers of a program, and lengths that are only
// claimed.
#pragma once

#include <cstdint>

namespace cuspan {

// True if all `bytes` from `at` on can be read, or if the kernel does not say so (a container may
// forbid process_vm_readv). Costs a system call for each 4 MiB. Any thread.
bool IsReadable(const void* at, std::uint64_t bytes);

}  // namespace cuspan

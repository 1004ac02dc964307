// Checks memory of this process that may be unmapped: a program's pointers, and unverified lengths.
#pragma once

#include <cstdint>

namespace cuspan {

// True if all `bytes` from `at` on are readable, or if the kernel refuses the query (a container
// may forbid process_vm_readv). Costs a system call for each 4 MiB. Threads: any.
bool IsReadable(const void* at, std::uint64_t bytes);

}  // namespace cuspan

// File descriptors passed between an agent and other processes.
#pragma once

#include "common/unique_fd.h"
#include "protocol/channel/bell.h"

namespace cuspan {

// Maximum number of this process's descriptors used by a session and by an opened device, including
// their set-up.
inline constexpr std::size_t kSessionDescriptors = 4;
inline constexpr std::size_t kDeviceDescriptors = 16;

// kExhausted, with the numbers and advice, if fewer than `wanted` descriptors are left besides a
// reserve for needs without a check.
Status CheckDescriptorsFor(std::size_t wanted);

// Second descriptor of the same file, closed on exec.
Result<UniqueFd> Duplicate(int fd);

// Second handle of a bell of this process.
Result<Bell> Duplicate(const Bell& bell);

// Opens a bell of another process. Refuses memory not sealed against shrinking: if that process
// shortened it, our accesses would fault.
Result<Bell> OpenForeignBell(UniqueFd fd);

}  // namespace cuspan

// Descriptors that an agent passes on or is given.
#pragma once

#include "common/unique_fd.h"
#include "protocol/channel/bell.h"

namespace cuspan {

// What a session and an opened device take of this process's descriptors, at most and while they
// are set up.
inline constexpr std::size_t kSessionDescriptors = 4;
inline constexpr std::size_t kDeviceDescriptors = 16;

// kExhausted, with the numbers and what to do, where fewer than `wanted` are left, beside some for
// what can not be refused.
Status CheckDescriptorsFor(std::size_t wanted);

// A second descriptor of the same file, closed on exec.
Result<UniqueFd> Duplicate(int fd);

// A second handle of a bell of this process.
Result<Bell> Duplicate(const Bell& bell);

// A bell that another process made. Refused when that process could still
// shorten it, which would make our accesses fault.
Result<Bell> OpenForeignBell(UniqueFd fd);

}  // namespace cuspan

// Descriptors that an agent passes on or is given.
#pragma once

#include "common/unique_fd.h"
#include "protocol/channel/bell.h"

namespace cuspan {

// A second descriptor of the same file, closed on exec.
Result<UniqueFd> Duplicate(int fd);

// A second handle of a bell of this process.
Result<Bell> Duplicate(const Bell& bell);

// A bell that another process made. Refused when that process could still
// shorten it, which would make our accesses fault.
Result<Bell> OpenForeignBell(UniqueFd fd);

}  // namespace cuspan

// Descriptors of a library in a program of others, which may count on the lowest free number.
#pragma once

#include <fcntl.h>

#include <utility>

#include "common/unique_fd.h"

namespace cuspan {

// The same file under a number that programs do not look at, from 500 on; where there is none left,
// as it was.
inline UniqueFd MoveHigh(UniqueFd fd) {
  UniqueFd high(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 500));
  return high.valid() ? std::move(high) : std::move(fd);
}

}  // namespace cuspan

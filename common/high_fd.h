// High descriptor numbers for a library inside a program: the program may rely on getting the
// lowest free one.
#pragma once

#include <fcntl.h>

#include <utility>

#include "common/unique_fd.h"

namespace cuspan {

// Moves the file to a number from 500 on, unlikely to be used by programs. Returns `fd` unchanged
// if no number is free.
inline UniqueFd MoveHigh(UniqueFd fd) {
  UniqueFd high(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 500));
  return high.valid() ? std::move(high) : std::move(fd);
}

}  // namespace cuspan

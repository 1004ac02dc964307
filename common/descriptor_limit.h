// How many file descriptors this process may have.
#pragma once

#include <sys/resource.h>

#include <cstddef>

namespace cuspan {

// The soft limit of open files (ulimit -n); 0 where it can not be told.
inline std::size_t DescriptorLimit() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 0;
}

}  // namespace cuspan

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

// Raises it as far as this process may: to the hard limit. Its children have it, too.
inline void RaiseDescriptorLimit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace cuspan

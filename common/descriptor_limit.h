// How many file descriptors this process may have.
#pragma once

#include <sys/resource.h>

#include <cstddef>

namespace cuspan {

// The soft limit of open files (ulimit -n). Where it can not be told, as with a filter of system
// calls, the most that Linux allows by default (fs.nr_open).
inline std::size_t DescriptorLimit() {
  constexpr std::size_t kMost = 1 << 20;
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : kMost;
}

// Raises it as far as this process may: to the hard limit. Its children have it, too.
inline void RaiseDescriptorLimit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace cuspan

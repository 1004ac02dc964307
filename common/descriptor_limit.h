// The limit of open file descriptors of this process.
#pragma once

#include <sys/resource.h>

#include <cstddef>

namespace cuspan {

// The soft limit of open files (ulimit -n). If it can not be read, for example under a system call
// filter, returns the default of fs.nr_open.
inline std::size_t DescriptorLimit() {
  constexpr std::size_t kMost = 1 << 20;
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : kMost;
}

// Raises the soft limit to the hard limit. Child processes inherit it.
inline void RaiseDescriptorLimit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace cuspan

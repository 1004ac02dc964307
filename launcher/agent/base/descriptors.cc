#include "launcher/agent/base/descriptors.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "common/descriptor_limit.h"

namespace cuspan {

namespace {

// Reserve for short-lived descriptors: pipes, files of /proc, a connection to refuse.
constexpr std::size_t kSpareDescriptors = 16;

std::size_t CountDescriptors() {
  std::error_code failure;
  std::size_t count = 0;
  for (auto entry = std::filesystem::directory_iterator("/proc/self/fd", failure);
       !failure && entry != std::filesystem::directory_iterator(); entry.increment(failure))
    ++count;
  // If /proc/self/fd cannot be opened, no descriptors are left.
  return failure ? DescriptorLimit() : count;
}

}  // namespace

Status CheckDescriptorsFor(std::size_t wanted) {
  const std::size_t used = CountDescriptors();
  const std::size_t limit = DescriptorLimit();
  if (used + wanted + kSpareDescriptors <= limit) return Status::Ok();
  return Status::Exhausted(
      "the agent uses {} of {} file descriptors and needs {} more: raise the limit of open files "
      "(ulimit -Hn) where the run is started and on each of its hosts",
      used, limit, wanted);
}

Result<UniqueFd> Duplicate(int fd) {
  UniqueFd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
  if (!copy.valid()) return Status::Exhausted("duplicating a descriptor: {}", std::strerror(errno));
  return copy;
}

Result<Bell> Duplicate(const Bell& bell) {
  CUSPAN_ASSIGN_OR_RETURN(UniqueFd fd, Duplicate(bell.fd()));
  return Bell::Open(std::move(fd));
}

Result<Bell> OpenForeignBell(UniqueFd fd) {
  const int seals = fd.valid() ? ::fcntl(fd.get(), F_GET_SEALS) : -1;
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
    return Status::Invalid("the memory of a bell is not sealed against resizing");
  return Bell::Open(std::move(fd));
}

}  // namespace cuspan

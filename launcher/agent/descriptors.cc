#include "launcher/agent/descriptors.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>

namespace cuspan {

Result<UniqueFd> Duplicate(int fd) {
  UniqueFd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
  if (!copy.valid()) return Status::Exhausted("duplicating a descriptor: {}", std::strerror(errno));
  return copy;
}

Result<Bell> Duplicate(const Bell& bell) {
  Result<UniqueFd> fd = Duplicate(bell.fd());
  if (!fd.ok()) return fd.status();
  return Bell::Open(std::move(*fd));
}

Result<Bell> OpenForeignBell(UniqueFd fd) {
  const int seals = fd.valid() ? ::fcntl(fd.get(), F_GET_SEALS) : -1;
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
    return Status::Invalid("a bell that is no sealed shared memory");
  return Bell::Open(std::move(fd));
}

}  // namespace cuspan

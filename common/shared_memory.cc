#include "common/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

namespace cuspan {
Status CheckSharedMemory(int fd, std::size_t offset, std::size_t bytes) {
  struct stat information {};
  if (::fstat(fd, &information) != 0)
    return Status::Internal("shared memory: {}", std::strerror(errno));
  const std::size_t length =
      information.st_size < 0 ? 0 : static_cast<std::size_t>(information.st_size);
  if (offset > length || bytes > length - offset)
    return Status::Invalid("shared memory has {} bytes; {} at offset {} are needed", length, bytes,
                           offset);
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
    return Status::Invalid("shared memory is not sealed against resizing");
  return Status::Ok();
}

std::uint64_t LargestSharedMemory() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return std::numeric_limits<std::int64_t>::max();
  return limit.rlim_cur;
}

Result<UniqueFd> CreateSharedMemory(const char* name, std::size_t bytes) {
  // ftruncate would raise SIGXFSZ, ending the process.
  if (const std::uint64_t largest = LargestSharedMemory(); bytes > largest)
    return Status::Exhausted(
        "cannot create {} bytes of shared memory: the file size limit is {} bytes; raise it "
        "(ulimit -f)",
        bytes, largest);
  UniqueFd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return Status::Internal("memfd_create: {}", std::strerror(errno));
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0)
    return Status::Exhausted("{} bytes of shared memory: {}", bytes, std::strerror(errno));
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return Status::Internal("sealing shared memory: {}", std::strerror(errno));
  return fd;
}

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Mapping::~Mapping() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

Result<Mapping> Mapping::Map(int fd, std::size_t offset, std::size_t bytes) {
  CUSPAN_RETURN_IF_ERROR(CheckSharedMemory(fd, offset, bytes));
  void* data =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(offset));
  if (data == MAP_FAILED)
    return Status::Exhausted("mapping {} bytes: {}", bytes, std::strerror(errno));
  return Mapping(static_cast<std::byte*>(data), bytes);
}

Result<Mapping> Mapping::MapTwice(int fd, std::size_t offset, std::size_t bytes) {
  CUSPAN_RETURN_IF_ERROR(CheckSharedMemory(fd, offset, bytes));
  void* space =
      ::mmap(nullptr, 2 * bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (space == MAP_FAILED)
    return Status::Exhausted("reserving {} bytes: {}", 2 * bytes, std::strerror(errno));
  Mapping both(static_cast<std::byte*>(space), 2 * bytes);
  for (std::size_t half = 0; half < 2; ++half) {
    if (::mmap(both.data_ + half * bytes, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
               static_cast<off_t>(offset)) == MAP_FAILED)
      return Status::Exhausted("mapping {} bytes: {}", bytes, std::strerror(errno));
  }
  return both;
}

}  // namespace cuspan

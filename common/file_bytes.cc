#include "common/file_bytes.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "common/format.h"
#include "common/round_up.h"

namespace cuspan {
namespace {

// O_DIRECT needs memory, offsets and sizes in multiples of the device's block size, on all file
// systems at most this.
constexpr std::uint64_t kBlock = 4096;
constexpr std::uint64_t kBuffer = std::uint64_t{1} << 20;

bool IsAligned(const std::byte* memory, std::uint64_t bytes, std::uint64_t offset) {
  return (reinterpret_cast<std::uintptr_t>(memory) | bytes | offset) % kBlock == 0;
}

// Calls part(memory, bytes, offset), the system's function, until all bytes are done, it returns 0,
// or it fails.
template <typename Byte, typename Part>
FileOutcome InParts(std::span<Byte> all, std::uint64_t offset, Part&& part) {
  FileOutcome outcome;
  while (outcome.bytes < all.size()) {
    const ssize_t done =
        part(all.data() + outcome.bytes, all.size() - outcome.bytes, offset + outcome.bytes);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) outcome.error = errno;
    if (done <= 0) break;
    outcome.bytes += static_cast<std::uint64_t>(done);
  }
  return outcome;
}

struct Free {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using AlignedBuffer = std::unique_ptr<std::byte, Free>;

}  // namespace

std::optional<FileBytes::Access> FileBytes::AccessOf(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0) return std::nullopt;
  Access access;
  const int mode = flags & O_ACCMODE;
  access.reads = mode != O_WRONLY;
  access.writes = mode != O_RDONLY;
  access.appends = (flags & O_APPEND) != 0;
  access.direct = (flags & O_DIRECT) != 0;
  return access;
}

FileOutcome FileBytes::Read(std::span<std::byte> to, std::uint64_t offset) const {
  if (access_.direct && !IsAligned(to.data(), to.size(), offset))
    return ReadThroughBuffer(to, offset);
  return ReadParts(to, offset);
}

FileOutcome FileBytes::ReadParts(std::span<std::byte> to, std::uint64_t offset) const {
  return InParts(to, offset, [this](std::byte* memory, std::size_t bytes, std::uint64_t at) {
    // Nothing is behind an end that is not aligned, and some systems refuse to read there.
    if (access_.direct && at % kBlock != 0) return ssize_t{0};
    return ::pread(fd(), memory, bytes, static_cast<off_t>(at));
  });
}

FileOutcome FileBytes::ReadThroughBuffer(std::span<std::byte> to, std::uint64_t offset) const {
  const AlignedBuffer buffer(static_cast<std::byte*>(std::aligned_alloc(kBlock, kBuffer)));
  if (buffer == nullptr) return {0, ENOMEM};
  FileOutcome outcome;
  while (outcome.bytes < to.size()) {
    const std::uint64_t at = offset + outcome.bytes;
    const std::uint64_t before = at % kBlock;
    const std::uint64_t wanted = std::min(before + to.size() - outcome.bytes, kBuffer);
    const FileOutcome part = ReadParts({buffer.get(), RoundUp(wanted, kBlock)}, at - before);
    const std::uint64_t found = std::min(part.bytes, wanted);
    if (found > before) {
      std::memcpy(to.data() + outcome.bytes, buffer.get() + before, found - before);
      outcome.bytes += found - before;
    }
    outcome.error = part.error;
    if (found < wanted) break;
  }
  return outcome;
}

bool FileBytes::ReadCached(std::span<std::byte> to, std::uint64_t offset) const {
  if (access_.direct) return false;
  const iovec part{to.data(), to.size()};
  return ::preadv2(fd(), &part, 1, static_cast<off_t>(offset), RWF_NOWAIT) ==
         static_cast<ssize_t>(to.size());
}

FileOutcome FileBytes::Write(std::span<const std::byte> from, std::uint64_t offset) const {
  // The other descriptor would have the rights of this process, not those of this descriptor.
  if (!access_.writes) return {0, EBADF};
  UniqueFd buffered;
  int target = fd();
  if (access_.direct && !IsAligned(from.data(), from.size(), offset)) {
    buffered = UniqueFd(::open(Format("/proc/self/fd/{}", fd()).c_str(), O_WRONLY | O_CLOEXEC));
    if (!buffered.valid()) return {0, errno};
    target = buffered.get();
  }
  const FileOutcome outcome =
      InParts(from, offset, [target](const std::byte* memory, std::size_t bytes, std::uint64_t at) {
        return ::pwrite(target, memory, bytes, static_cast<off_t>(at));
      });
  // The system writes something, or says why not.
  return outcome.error == 0 && outcome.bytes < from.size() ? FileOutcome{outcome.bytes, EIO}
                                                           : outcome;
}

}  // namespace cuspan

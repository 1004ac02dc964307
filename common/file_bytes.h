// Bytes of a file at given offsets, whole and in aligned parts.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "common/unique_fd.h"

namespace cuspan {

// Result of reading or writing a part of a file. If there is an error, `bytes` of the part are done
// nevertheless, from its start.
struct FileOutcome {
  std::uint64_t bytes = 0;  // Fewer than wanted without an error: the end of the file.
  int error = 0;            // errno; 0: none.

  bool operator==(const FileOutcome&) const = default;
};

// A regular file opened by somebody else. Its offset is never used or changed: another process may
// share it. Threads: any.
class FileBytes {
 public:
  // Kinds of access by the descriptor's flags.
  struct Access {
    bool reads = false;
    bool writes = false;
    bool appends = false;  // The system ignores offsets of writes.
    bool direct = false;   // O_DIRECT: without the page cache.
  };

  FileBytes() = default;
  FileBytes(UniqueFd fd, const Access& access) : fd_(std::move(fd)), access_(access) {}

  // Access by a descriptor; nothing if it is not open, with errno.
  static std::optional<Access> AccessOf(int fd);

  int fd() const { return fd_.get(); }
  const Access& access() const { return access_; }

  // Reads into `to` until it is full, or until the end of the file. May block for long. Descriptors
  // with O_DIRECT may be read at any offset into any memory: parts that are not aligned are copied.
  FileOutcome Read(std::span<std::byte> to, std::uint64_t offset) const;
  // Reads without blocking. Nothing unless the system has all of these bytes in memory.
  bool ReadCached(std::span<std::byte> to, std::uint64_t offset) const;
  // Writes all of `from`. With O_DIRECT, parts that are not aligned are written through the page
  // cache, by another descriptor of the same file.
  FileOutcome Write(std::span<const std::byte> from, std::uint64_t offset) const;

 private:
  FileOutcome ReadParts(std::span<std::byte> to, std::uint64_t offset) const;
  FileOutcome ReadThroughBuffer(std::span<std::byte> to, std::uint64_t offset) const;

  UniqueFd fd_;
  Access access_;
};

}  // namespace cuspan

// Memory that several processes map: memfds, which have no name and vanish with
// their last user.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/status.h"
#include "common/unique_fd.h"

namespace cuspan {

// How large a piece may be: the calling process's limit of file sizes (ulimit -f) counts for memory
// that has a descriptor, too.
std::uint64_t LargestSharedMemory();

// A memfd of exactly `bytes`, sealed against resizing, so that a peer can not
// make our accesses fault. Closed on exec.
Result<UniqueFd> CreateSharedMemory(const char* name, std::size_t bytes);

// That [offset, offset + bytes) of a descriptor that a peer made is there and stays there:
// kInvalid when it is shorter or is not sealed against becoming so.
Status CheckSharedMemory(int fd, std::size_t offset, std::size_t bytes);

// A mapping with one owner; unmapped at the end.
class Mapping {
 public:
  Mapping() = default;
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  // Maps [offset, offset + bytes) of `fd` for reading and writing. kInvalid when `fd` is
  // shorter or is not sealed against becoming so.
  static Result<Mapping> Map(int fd, std::size_t offset, std::size_t bytes);
  // The same range twice, one behind the other, so that an object that runs
  // over the end continues at the start. `bytes` is a multiple of the page size.
  static Result<Mapping> MapTwice(int fd, std::size_t offset, std::size_t bytes);

  std::byte* data() const { return data_; }
  std::size_t size() const { return bytes_; }

 private:
  Mapping(std::byte* data, std::size_t bytes) : data_(data), bytes_(bytes) {}
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace cuspan

// Memory shared by several processes: memfds. They have no name and vanish with their last user.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/status.h"
#include "common/unique_fd.h"

namespace cuspan {

// Maximum size of one memfd. The process's limit of file sizes (ulimit -f) also applies to memfds.
std::uint64_t LargestSharedMemory();

// A memfd of exactly `bytes`, sealed against resizing, so a peer can not make our accesses fault.
// Closed on exec.
Result<UniqueFd> CreateSharedMemory(const char* name, std::size_t bytes);

// Checks that [offset, offset + bytes) of a peer's descriptor exists and stays. kInvalid if the
// file is shorter, or is not sealed against shrinking.
Status CheckSharedMemory(int fd, std::size_t offset, std::size_t bytes);

// A mapping with one owner; unmapped by the destructor.
class Mapping {
 public:
  Mapping() = default;
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  // Maps [offset, offset + bytes) of `fd` for reading and writing. kInvalid if `fd` is shorter or
  // is not sealed against shrinking.
  static Result<Mapping> Map(int fd, std::size_t offset, std::size_t bytes);
  // Maps the same range twice, consecutively: an object running over the end continues at the
  // start. `bytes` is a multiple of the page size.
  static Result<Mapping> MapTwice(int fd, std::size_t offset, std::size_t bytes);

  // Leaves the memory mapped until the process ends.
  void Abandon() { data_ = nullptr; }

  std::byte* data() const { return data_; }
  std::size_t size() const { return bytes_; }

 private:
  Mapping(std::byte* data, std::size_t bytes) : data_(data), bytes_(bytes) {}
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace cuspan

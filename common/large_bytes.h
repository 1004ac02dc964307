// Memory for an amount of bytes known before, such as a file's.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>

namespace cuspan {

// Not initialised: for megabytes that takes as long as reading them. In huge pages if it is large
// and the system has them: page faults for small ones take longer still. One owner; it can be
// moved.
class LargeBytes {
 public:
  LargeBytes() = default;
  // Throws std::bad_alloc without memory.
  explicit LargeBytes(std::size_t bytes);
  explicit LargeBytes(std::span<const std::byte> copied);

  std::byte* data() const { return memory_.get(); }
  std::size_t size() const { return bytes_; }
  std::span<std::byte> all() const { return {memory_.get(), bytes_}; }
  // Removes bytes at the end.
  void Shorten(std::size_t bytes) { bytes_ = bytes < bytes_ ? bytes : bytes_; }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> memory_;
  std::size_t bytes_ = 0;
};

}  // namespace cuspan

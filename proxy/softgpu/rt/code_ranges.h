// Addresses of compiled kernels, readable in a signal handler. A kernel may be stopped from outside
// only there: our own code might hold a lock.
#pragma once

#include <cstdint>

namespace cuspan::softgpu {

// One range [begin, end) of compiled code, registered during this object's life. If there are too
// many, further ones are not registered, and their code cannot be stopped. Threads: any.
class CodeRange {
 public:
  CodeRange(std::uint64_t begin, std::uint64_t end);
  ~CodeRange();
  CodeRange(CodeRange&& other) noexcept;
  CodeRange& operator=(CodeRange&&) = delete;

  // True if `address` is in a registered range. Async-signal-safe.
  static bool Contains(std::uint64_t address);

 private:
  int slot_;  // -1: not registered, or moved from.
};

}  // namespace cuspan::softgpu

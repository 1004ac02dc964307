// Where compiled kernels lie in memory, readable in a signal handler: only there
// may a kernel be stopped from outside, since our own code might hold a lock.
#pragma once

#include <cstdint>

namespace cuspan::softgpu {

// One range [begin, end) of compiled code, known while this object lives. When too many
// live, further ones are not known: such code can not be stopped. Any thread.
class CodeRange {
 public:
  CodeRange(std::uint64_t begin, std::uint64_t end);
  ~CodeRange();
  CodeRange(CodeRange&& other) noexcept;
  CodeRange& operator=(CodeRange&&) = delete;

  // Whether `address` lies in a known range. Async-signal-safe.
  static bool Contains(std::uint64_t address);

 private:
  int slot_;  // -1: not known, or moved from.
};

}  // namespace cuspan::softgpu

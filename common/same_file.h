// Evidence for two processes on different nodes: their open files are the same.
//
// One of them proves its knowledge of the bytes by a sum over pages chosen by the other. Later, the
// system's times of changes show if the bytes are still the same.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "common/file_bytes.h"

namespace cuspan {

// Smaller files are not compared: sending them takes no longer.
inline constexpr std::uint64_t kMinSameFile = 64 * 1024;

// State of a regular file. While it is the same, nobody has changed the file, unless it was not
// settled.
struct FileState {
  std::uint64_t bytes = 0;
  std::chrono::nanoseconds modified{};  // Last write, since 1970. Programs can set it.
  std::chrono::nanoseconds changed{};   // Last change of bytes or attributes. Nobody can set it.

  // Nothing unless it is a regular file with a name, and with times before 2255.
  static std::optional<FileState> Of(int fd);
  // False if it was changed just now: times have a granularity of some ms, so a further change may
  // leave the same state.
  bool settled() const;

  bool operator==(const FileState&) const = default;
};

// Sum over a file of this size, up to 1 MiB; of a larger one over its first page, its last one, and
// 64 others chosen by `seed`. It is XXH3 with 64 bits, without a seed of its own. Nothing if they
// can not be read.
std::optional<std::uint64_t> SumOfPages(const FileBytes& file, std::uint64_t bytes,
                                        std::uint64_t seed);

}  // namespace cuspan

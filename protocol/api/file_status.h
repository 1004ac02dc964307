// Outcome of a read or write of a file, as in ops and in include/cuspan/file.h.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace cuspan {

enum class FileResult : std::int32_t {
  kSuccess = 0,
  kInvalidValue = 1,
  kInvalidFile = 2,
  kInvalidMemory = 3,
  kNotPermitted = 4,
  kSystem = 5,  // `error` is an errno.
  kDevice = 6,  // `error` is a CUresult.
  kNotSupported = 7,
  kPending = 8,
};

// Little-endian, in this order.
struct FileStatus {
  std::int64_t bytes = 0;  // Read or written, from the start.
  FileResult result = FileResult::kSuccess;
  std::int32_t error = 0;

  static FileStatus System(std::uint64_t bytes, int error) {
    const auto result = error == 0 ? FileResult::kSuccess : FileResult::kSystem;
    return {static_cast<std::int64_t>(bytes), result, error};
  }
};
static_assert(sizeof(FileStatus) == 16);

using FileStatusBytes = std::array<std::byte, sizeof(FileStatus)>;
inline FileStatusBytes BytesOf(const FileStatus& status) {
  return std::bit_cast<FileStatusBytes>(status);
}

}  // namespace cuspan

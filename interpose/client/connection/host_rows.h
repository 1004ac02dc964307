// The program's side of a box copy: rows in its memory, packed and unpacked on the way through the
// staging buffers.
#pragma once

#include "protocol/api/box.h"

namespace cuspan {

struct HostRows {
  BoxExtent extent;              // Empty: one run of bytes.
  std::uint64_t pitch = 0;       // Bytes from one row to the next.
  std::uint64_t plane_rows = 0;  // Rows from one plane to the next.
};

// Copy the packed bytes [offset, offset + bytes) of the rows at `base` to or from `packed`. The
// rows have at least offset + bytes bytes.
void PackRows(const HostRows& rows, const std::byte* base, std::uint64_t offset,
              std::uint64_t bytes, std::byte* packed);
void UnpackRows(const HostRows& rows, std::byte* base, std::uint64_t offset, std::uint64_t bytes,
                const std::byte* packed);

// Addresses from the first of these bytes to the end of the last (at least one byte). Bytes of
// other rows may be in between.
struct HostSpan {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  bool Meets(const HostSpan& other) const { return begin < other.end && other.begin < end; }
};
HostSpan SpanOf(const HostRows& rows, const std::byte* base, std::uint64_t offset,
                std::uint64_t bytes);

}  // namespace cuspan

// The program's side of a copy of a box: rows in its memory, packed and unpacked
// on the way through the staging buffers.
#pragma once

#include "protocol/api/box.h"

namespace cuspan {

struct HostRows {
  BoxExtent extent;              // Nothing: one run of bytes.
  std::uint64_t pitch = 0;       // Bytes from one row to the next.
  std::uint64_t plane_rows = 0;  // Rows from one plane to the next.
};

// The packed bytes [offset, offset + bytes) of the rows at `base`, which are at
// least so many, to or from `packed`.
void PackRows(const HostRows& rows, const std::byte* base, std::uint64_t offset,
              std::uint64_t bytes, std::byte* packed);
void UnpackRows(const HostRows& rows, std::byte* base, std::uint64_t offset, std::uint64_t bytes,
                const std::byte* packed);

// From the first of these bytes to behind the last, of one at least. Other rows may lie between.
struct HostSpan {
  std::uint64_t begin;
  std::uint64_t end;
  bool Meets(const HostSpan& other) const { return begin < other.end && other.begin < end; }
};
HostSpan SpanOf(const HostRows& rows, const std::byte* base, std::uint64_t offset,
                std::uint64_t bytes);

}  // namespace cuspan

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

}  // namespace cuspan

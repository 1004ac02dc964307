// Mapping between a box of bytes (rows in planes) and the packed bytes of its transfer.
#pragma once

#include <algorithm>
#include <limits>
#include <optional>

#include "structs.gen.h"

namespace cuspan {

// Number of bytes in a box; nothing if it exceeds 64 bits.
inline std::optional<std::uint64_t> PackedBytes(const BoxExtent& extent) {
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(extent.width, extent.rows, &bytes) ||
      __builtin_mul_overflow(bytes, extent.planes, &bytes))
    return std::nullopt;
  return bytes;
}

// Bytes from the first to the last byte of a non-empty box in memory. Rows are `pitch` apart,
// planes plane_rows × pitch. Nothing if it exceeds 64 bits.
inline std::optional<std::uint64_t> SpannedBytes(const BoxExtent& extent, std::uint64_t pitch,
                                                 std::uint64_t plane_rows) {
  std::uint64_t rows = 0;
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(extent.planes - 1, plane_rows, &rows) ||
      __builtin_add_overflow(rows, extent.rows - 1, &rows) ||
      __builtin_mul_overflow(rows, pitch, &bytes) ||
      __builtin_add_overflow(bytes, extent.width, &bytes))
    return std::nullopt;
  return bytes;
}

// A part of a box with the shape of a box.
struct BoxPiece {
  std::uint64_t packed;   // Offset in the packed bytes.
  std::uint64_t x, y, z;  // Position in the box: bytes, rows, planes.
  BoxExtent extent;
};

// Calls use(const BoxPiece&), in order, for the pieces (at most five) containing the packed bytes
// [offset, offset + bytes). They must be inside the box.
template <typename Use>
void ForEachPiece(const BoxExtent& box, std::uint64_t offset, std::uint64_t bytes, Use&& use) {
  const std::uint64_t plane = box.width * box.rows;
  while (bytes > 0) {
    const std::uint64_t in_plane = offset % plane;
    BoxPiece piece{offset, in_plane % box.width, in_plane / box.width, offset / plane, {}};
    std::uint64_t taken = 0;
    if (in_plane == 0 && bytes >= plane) {
      piece.extent = {box.width, box.rows, bytes / plane};
      taken = piece.extent.planes * plane;
    } else if (piece.x == 0 && bytes >= box.width) {
      piece.extent = {box.width, std::min(bytes / box.width, box.rows - piece.y), 1};
      taken = piece.extent.rows * box.width;
    } else {
      taken = std::min(bytes, box.width - piece.x);
      piece.extent = {taken, 1, 1};
    }
    use(static_cast<const BoxPiece&>(piece));
    offset += taken;
    bytes -= taken;
  }
}

}  // namespace cuspan

#include "interpose/client/host_rows.h"

#include <cstring>

namespace cuspan {
namespace {

// use(where in the rows' memory, where among the packed bytes, bytes) for each run.
template <typename Use>
void ForEachRun(const HostRows& rows, std::uint64_t offset, std::uint64_t bytes, Use&& use) {
  if (rows.extent.width == 0) return use(offset, std::uint64_t{0}, bytes);
  ForEachPiece(rows.extent, offset, bytes, [&](const BoxPiece& piece) {
    std::uint64_t packed = piece.packed - offset;
    for (std::uint64_t plane = 0; plane < piece.extent.planes; ++plane) {
      for (std::uint64_t row = 0; row < piece.extent.rows; ++row) {
        const std::uint64_t line = (piece.z + plane) * rows.plane_rows + piece.y + row;
        use(line * rows.pitch + piece.x, packed, piece.extent.width);
        packed += piece.extent.width;
      }
    }
  });
}

}  // namespace

void PackRows(const HostRows& rows, const std::byte* base, std::uint64_t offset,
              std::uint64_t bytes, std::byte* packed) {
  ForEachRun(rows, offset, bytes, [&](std::uint64_t from, std::uint64_t to, std::uint64_t run) {
    std::memcpy(packed + to, base + from, run);
  });
}

void UnpackRows(const HostRows& rows, std::byte* base, std::uint64_t offset, std::uint64_t bytes,
                const std::byte* packed) {
  ForEachRun(rows, offset, bytes, [&](std::uint64_t to, std::uint64_t from, std::uint64_t run) {
    std::memcpy(base + to, packed + from, run);
  });
}

}  // namespace cuspan

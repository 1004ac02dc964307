#include "interpose/client/connection/host_rows.h"

#include <emmintrin.h>

#include <cstring>

namespace cuspan {
namespace {

// Minimum length of runs copied around the caches. Beyond the size of the caches, plain stores read
// every line before writing it, and evict the program's data.
constexpr std::uint64_t kMinStreamed = 1 << 20;

// memcpy with non-temporal stores. Two threads keep up with a GPU's PCIe connection; plain stores
// need four (measured: 30 against 17 GB/s).
void CopyStreaming(std::byte* to, const std::byte* from, std::uint64_t bytes) {
  constexpr std::uint64_t kLine = 64;
  const std::uint64_t head = -reinterpret_cast<std::uintptr_t>(to) % kLine;
  std::memcpy(to, from, head);
  to += head;
  from += head;
  bytes -= head;
  for (; bytes >= kLine; to += kLine, from += kLine, bytes -= kLine) {
    const auto* const source = reinterpret_cast<const __m128i*>(from);
    auto* const target = reinterpret_cast<__m128i*>(to);
    const __m128i a = _mm_loadu_si128(source);
    const __m128i b = _mm_loadu_si128(source + 1);
    const __m128i c = _mm_loadu_si128(source + 2);
    const __m128i d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
  _mm_sfence();
  std::memcpy(to, from, bytes);
}

// Calls use(offset in the rows' memory, offset in the packed bytes, bytes) for each run.
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

std::uint64_t OffsetOf(const HostRows& rows, std::uint64_t packed) {
  if (rows.extent.width == 0) return packed;
  const std::uint64_t row = packed / rows.extent.width;
  const std::uint64_t line = row / rows.extent.rows * rows.plane_rows + row % rows.extent.rows;
  return line * rows.pitch + packed % rows.extent.width;
}

}  // namespace

HostSpan SpanOf(const HostRows& rows, const std::byte* base, std::uint64_t offset,
                std::uint64_t bytes) {
  const auto start = reinterpret_cast<std::uintptr_t>(base);
  return {start + OffsetOf(rows, offset), start + OffsetOf(rows, offset + bytes - 1) + 1};
}

void PackRows(const HostRows& rows, const std::byte* base, std::uint64_t offset,
              std::uint64_t bytes, std::byte* packed) {
  ForEachRun(rows, offset, bytes, [&](std::uint64_t from, std::uint64_t to, std::uint64_t run) {
    std::memcpy(packed + to, base + from, run);
  });
}

void UnpackRows(const HostRows& rows, std::byte* base, std::uint64_t offset, std::uint64_t bytes,
                const std::byte* packed) {
  ForEachRun(rows, offset, bytes, [&](std::uint64_t to, std::uint64_t from, std::uint64_t run) {
    if (run >= kMinStreamed)
      CopyStreaming(base + to, packed + from, run);
    else
      std::memcpy(base + to, packed + from, run);
  });
}

}  // namespace cuspan

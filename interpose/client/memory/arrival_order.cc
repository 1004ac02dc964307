#include "interpose/client/memory/arrival_order.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace cuspan {
namespace {

constexpr std::uint64_t kWordBytes = 8;
// Runs at most this far apart belong to one piece.
constexpr std::uint64_t kPieceGapBytes = 64;

// Adds the part of the run in [begin, end).
void AddPart(const BlockAllocator::Range& run, std::uint64_t begin, std::uint64_t end,
             ByteRuns* runs) {
  const std::uint64_t from = std::max(run.base, begin);
  const std::uint64_t to = std::min(run.base + run.bytes, end);
  if (from < to) runs->push_back({from, to - from});
}

}  // namespace

std::size_t CountPieces(const ByteRuns& runs) {
  std::size_t pieces = runs.empty() ? 0 : 1;
  for (std::size_t i = 1; i < runs.size(); ++i)
    if (runs[i].base - (runs[i - 1].base + runs[i - 1].bytes) > kPieceGapBytes) ++pieces;
  return pieces;
}

OrderedRuns InOrderOfArrival(const ByteRuns& runs) {
  OrderedRuns ordered;
  auto& [inside, last, half, first, single] = ordered;
  for (std::size_t begin = 0; begin < runs.size();) {
    std::size_t end = begin + 1;
    while (end < runs.size() &&
           runs[end].base - (runs[end - 1].base + runs[end - 1].bytes) <= kPieceGapBytes)
      ++end;
    const std::uint64_t piece = runs[begin].base;
    const std::uint64_t piece_end = runs[end - 1].base + runs[end - 1].bytes;
    const std::uint64_t second_word = (piece / kWordBytes + 1) * kWordBytes;
    const std::uint64_t last_word = (piece_end - 1) / kWordBytes * kWordBytes;
    // A run across the middle of the word may be one number, or a pointer.
    const std::uint64_t middle = second_word - kWordBytes / 2;
    for (std::size_t i = begin; i < end; ++i) {
      const bool alone = second_word > last_word;
      if (piece < middle && runs[i].base >= middle && runs[i].base < second_word)
        AddPart(runs[i], piece, second_word, &half);
      else
        AddPart(runs[i], piece, second_word, alone ? &single : &first);
      if (alone) continue;
      AddPart(runs[i], second_word, last_word, &inside);
      AddPart(runs[i], last_word, piece_end, &last);
    }
    begin = end;
  }
  return ordered;
}

}  // namespace cuspan

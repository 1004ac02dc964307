#include "interpose/client/memory/differences.h"

#include <algorithm>
#include <cstring>

namespace cuspan {

std::uint64_t NextDifference(const std::byte* a, const std::byte* b, std::uint64_t from,
                             std::uint64_t end) {
  constexpr std::uint64_t kStride = 4096;
  while (from < end) {
    const std::uint64_t piece = std::min(kStride, end - from);
    if (std::memcmp(a + from, b + from, piece) != 0) {
      while (a[from] == b[from]) ++from;
      return from;
    }
    from += piece;
  }
  return end;
}

std::uint64_t EndOfDifference(const std::byte* a, const std::byte* b, std::uint64_t from,
                              std::uint64_t end) {
  while (from < end && a[from] != b[from]) ++from;
  return from;
}

void AddRun(std::uint64_t from, std::uint64_t to, std::uint64_t least, std::uint64_t gap,
            ByteRuns* runs) {
  if (!runs->empty()) {
    auto& last = runs->back();
    const std::uint64_t end = last.base + last.bytes;
    if (from == end || (end >= least && from - end <= gap)) {
      last.bytes = to - last.base;
      return;
    }
  }
  runs->push_back({from, to - from});
}

}  // namespace cuspan

// Search for the bytes in which two copies of memory differ.
#pragma once

#include <cstddef>
#include <cstdint>

#include "interpose/client/memory/arrival_order.h"

namespace cuspan {

// Unit of comparison if the exact bytes do not matter; offsets of memory are multiples of it.
inline constexpr std::uint64_t kLineBytes = 64;

// Returns the first difference at or after `from`; `end` without one.
std::uint64_t NextDifference(const std::byte* a, const std::byte* b, std::uint64_t from,
                             std::uint64_t end);
// Returns the first equal byte at or after `from`; `end` without one.
std::uint64_t EndOfDifference(const std::byte* a, const std::byte* b, std::uint64_t from,
                              std::uint64_t end);

// Calls note(from, to) for all differences in [begin, end): each run of differing bytes if `exact`,
// otherwise runs of lines with differences. `note` may change one of the copies there.
template <typename Note>
void ForEachDifference(const std::byte* a, const std::byte* b, std::uint64_t begin,
                       std::uint64_t end, bool exact, Note&& note) {
  for (std::uint64_t at = NextDifference(a, b, begin, end); at < end;) {
    std::uint64_t to = 0;
    if (exact) {
      to = EndOfDifference(a, b, at, end);
    } else {
      at = to = at / kLineBytes * kLineBytes;
      do to += kLineBytes;
      while (to < end && NextDifference(a, b, to, to + kLineBytes) < to + kLineBytes);
    }
    note(at, to);
    at = NextDifference(a, b, to, end);
  }
}

// Adds [from, to) to *runs, at its end or behind it. Merges it with the last run, if this ends at
// `least` or later, and at most `gap` before `from`.
void AddRun(std::uint64_t from, std::uint64_t to, std::uint64_t least, std::uint64_t gap,
            ByteRuns* runs);

// Maximum gap between differences sent as one run, where the bytes between may be sent along.
inline constexpr std::uint64_t kGapBytes = 1024;

}  // namespace cuspan

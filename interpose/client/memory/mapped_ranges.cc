#include "interpose/client/memory/mapped_ranges.h"

#include <iterator>

namespace cuspan {

MappedRanges::Ranges::const_iterator MappedRanges::At(std::uint64_t address) const {
  const auto after = ranges_.upper_bound(address);
  if (after == ranges_.begin()) return ranges_.end();
  const auto found = std::prev(after);
  return address - found->first < found->second.bytes ? found : ranges_.end();
}

void MappedRanges::SetAccess(std::uint64_t base, bool accessible) {
  const auto found = ranges_.find(base);
  if (found != ranges_.end()) found->second.accessible = accessible;
}

std::optional<MappedRanges::Range> MappedRanges::Find(std::uint64_t address) const {
  const auto found = At(address);
  if (found == ranges_.end()) return std::nullopt;
  return Range{found->first, found->second.bytes};
}

bool MappedRanges::Owns(std::uint64_t address) const {
  const auto found = At(address);
  return found != ranges_.end() && found->second.own;
}

bool MappedRanges::Covers(std::uint64_t address, std::uint64_t bytes) const {
  std::uint64_t at = address;
  for (auto next = At(address); next != ranges_.end() && next->first <= at; ++next) {
    if (!next->second.accessible) return false;
    const std::uint64_t here = next->second.bytes - (at - next->first);
    if (bytes <= here) return true;
    bytes -= here;
    at += here;
  }
  return false;
}

}  // namespace cuspan

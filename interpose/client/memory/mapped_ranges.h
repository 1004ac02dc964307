// What the program has mapped at addresses that it reserved, as one device sees it. Pure: knows no
// device and no locks; device_memory.h stands on it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "interpose/client/memory/block_allocator.h"

namespace cuspan {

// Not thread-safe.
class MappedRanges {
 public:
  using Range = BlockAllocator::Range;

  // A mapping, without access; `own`: of the device's own memory.
  void Add(Range range, bool own) { ranges_[range.base] = {range.bytes, own, false}; }
  // The one that starts there, if any.
  void Remove(std::uint64_t base) { ranges_.erase(base); }
  void SetAccess(std::uint64_t base, bool accessible);

  // The mapping that holds `address`.
  std::optional<Range> Find(std::uint64_t address) const;
  // Whether it is one of the device's own memory.
  bool Owns(std::uint64_t address) const;
  // Whether all of [address, address + bytes) is in mappings, side by side, with access.
  bool Covers(std::uint64_t address, std::uint64_t bytes) const;

 private:
  struct Mapped {
    std::uint64_t bytes;
    bool own;
    bool accessible;
  };
  using Ranges = std::map<std::uint64_t, Mapped>;
  // Of the mapping that holds `address`, or the end.
  Ranges::const_iterator At(std::uint64_t address) const;

  Ranges ranges_;  // By base.
};

}  // namespace cuspan

// Mappings made by the program at addresses it reserved, as seen by one device. Pure: no device, no
// locks. Used by device_memory.h.
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

  // Adds a mapping, without access; `own`: of the device's own memory.
  void Add(Range range, bool own) { ranges_[range.base] = {range.bytes, own, false}; }
  // Removes the one starting there, if any.
  void Remove(std::uint64_t base) { ranges_.erase(base); }
  void SetAccess(std::uint64_t base, bool accessible);

  // Returns the mapping containing `address`.
  std::optional<Range> Find(std::uint64_t address) const;
  // True if it is in a mapping of the device's own memory.
  bool Owns(std::uint64_t address) const;
  // True if all of [address, address + bytes) is in adjacent mappings with access.
  bool Covers(std::uint64_t address, std::uint64_t bytes) const;

 private:
  struct Mapped {
    std::uint64_t bytes;
    bool own;
    bool accessible;
  };
  using Ranges = std::map<std::uint64_t, Mapped>;
  // Returns the mapping containing `address`, or the end.
  Ranges::const_iterator At(std::uint64_t address) const;

  Ranges ranges_;  // Keyed by base.
};

}  // namespace cuspan

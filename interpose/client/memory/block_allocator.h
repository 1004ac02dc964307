// Allocates blocks from ranges of device addresses. Pure: no device, no locks, no round trips. Used
// by device_memory.h.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace cuspan {

// Not thread-safe.
class BlockAllocator {
 public:
  // Minimum alignment of cudaMalloc; also sufficient for textures.
  static constexpr std::uint64_t kAlignment = 512;

  // Segments may use `base` … `base + bytes`; both are multiples of kAlignment.
  BlockAllocator(std::uint64_t base, std::uint64_t bytes)
      : window_base_(base), window_bytes_(bytes) {}

  struct Range {
    std::uint64_t base;
    std::uint64_t bytes;
  };

  // Returns the lowest free address range for a new segment; nothing if the window is full.
  std::optional<std::uint64_t> PlaceSegment(std::uint64_t bytes) const;
  // Adds a range with memory behind it, all of it free.
  void AddSegment(Range segment);
  // Same, all of it in use as one block, removed only by RemoveTaken.
  void AddTaken(Range segment);
  void RemoveTaken(std::uint64_t base);
  // Removes a segment; all of it must be free.
  void RemoveSegment(std::uint64_t base);
  std::vector<Range> Segments() const;
  // Segments without any used block.
  std::vector<Range> EmptySegments() const;

  // Returns the best fitting free block of at least `bytes` (> 0), or nothing.
  std::optional<std::uint64_t> Allocate(std::uint64_t bytes);
  // Takes back the block starting at `base`: until Recycle it is neither in use nor free. Returns
  // its whole range, or nothing if no block starts there.
  std::optional<Range> Retire(std::uint64_t base);
  // Frees a retired range. True if all of its segment is now free.
  bool Recycle(Range range);
  // Both in one step; false if no block starts at `base`.
  bool Free(std::uint64_t base);
  // Returns the allocated block containing `address`, with the requested size.
  std::optional<Range> Find(std::uint64_t address) const;
  // Returns the segment containing `address`.
  std::optional<Range> Segment(std::uint64_t address) const;
  // Returns the range in `part` from the first byte of a block to the last; empty without a block.
  Range UsedIn(const Range& part) const;

  std::uint64_t free_bytes() const { return free_bytes_; }
  std::uint64_t used_blocks() const { return used_.size(); }

 private:
  void AddFree(std::uint64_t base, std::uint64_t bytes);
  void RemoveFree(std::uint64_t base, std::uint64_t bytes);

  std::uint64_t window_base_;
  std::uint64_t window_bytes_;
  std::map<std::uint64_t, std::uint64_t> segments_;                 // base → bytes
  std::map<std::uint64_t, std::uint64_t> free_;                     // base → bytes
  std::set<std::pair<std::uint64_t, std::uint64_t>> free_by_size_;  // (bytes, base)
  struct Used {
    std::uint64_t bytes;  // Rounded up.
    std::uint64_t requested;
  };
  std::map<std::uint64_t, Used> used_;  // Keyed by base.
  std::uint64_t free_bytes_ = 0;
};

}  // namespace cuspan

// Cuts blocks out of ranges of device addresses. Pure: knows no device, no
// locks and no round trips; device_memory.h stands on it.
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
  // What cudaMalloc guarantees at least, and what textures ask for.
  static constexpr std::uint64_t kAlignment = 512;

  // `base` … `base + bytes` may be used for segments; both multiples of kAlignment.
  BlockAllocator(std::uint64_t base, std::uint64_t bytes)
      : window_base_(base), window_bytes_(bytes) {}

  struct Range {
    std::uint64_t base;
    std::uint64_t bytes;
  };

  // The lowest free address range for a new segment; nothing when the window is full.
  std::optional<std::uint64_t> PlaceSegment(std::uint64_t bytes) const;
  // A range that has memory behind it from now on, all of it free.
  void AddSegment(Range segment);
  // The same, all of it in use as one block, which ends with RemoveTaken only.
  void AddTaken(Range segment);
  void RemoveTaken(std::uint64_t base);
  // Takes a segment out; all of it must be free.
  void RemoveSegment(std::uint64_t base);
  std::vector<Range> Segments() const;
  // Segments of which nothing is in use.
  std::vector<Range> EmptySegments() const;

  // The best fitting free block of at least `bytes` (> 0); nothing when there is none.
  std::optional<std::uint64_t> Allocate(std::uint64_t bytes);
  // Takes back the block that starts at `base`, which is neither in use nor free then: its whole
  // range, for Recycle. Nothing when no block starts there.
  std::optional<Range> Retire(std::uint64_t base);
  // A retired range is free again; true when nothing of its segment is in use any more.
  bool Recycle(Range range);
  // Both at once; false when no block starts at `base`.
  bool Free(std::uint64_t base);
  // The allocated block that holds `address`, with the size that was asked for.
  std::optional<Range> Find(std::uint64_t address) const;
  // The segment that holds `address`.
  std::optional<Range> Segment(std::uint64_t address) const;
  // Of `part`, from the first byte of a block to the last; no bytes without a block.
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
    std::uint64_t bytes;  // As taken, rounded.
    std::uint64_t requested;
  };
  std::map<std::uint64_t, Used> used_;  // base →
  std::uint64_t free_bytes_ = 0;
};

}  // namespace cuspan

#include "interpose/client/memory/block_allocator.h"

#include <algorithm>
#include <iterator>

namespace cuspan {
namespace {

std::uint64_t RoundUp(std::uint64_t bytes) {
  return (bytes + BlockAllocator::kAlignment - 1) / BlockAllocator::kAlignment *
         BlockAllocator::kAlignment;
}

}  // namespace

std::optional<std::uint64_t> BlockAllocator::PlaceSegment(std::uint64_t bytes) const {
  std::uint64_t candidate = window_base_;
  for (const auto& [base, segment_bytes] : segments_) {
    if (base - candidate >= bytes) return candidate;
    candidate = base + segment_bytes;
  }
  if (bytes <= window_base_ + window_bytes_ - candidate) return candidate;
  return std::nullopt;
}

void BlockAllocator::AddSegment(Range segment) {
  segments_[segment.base] = segment.bytes;
  free_bytes_ += segment.bytes;
  AddFree(segment.base, segment.bytes);
}

void BlockAllocator::AddTaken(Range segment) {
  segments_[segment.base] = segment.bytes;
  used_[segment.base] = {segment.bytes, segment.bytes};
}

void BlockAllocator::RemoveTaken(std::uint64_t base) {
  used_.erase(base);
  segments_.erase(base);
}

void BlockAllocator::RemoveSegment(std::uint64_t base) {
  const auto segment = segments_.find(base);
  RemoveFree(base, segment->second);
  free_bytes_ -= segment->second;
  segments_.erase(segment);
}

std::vector<BlockAllocator::Range> BlockAllocator::Segments() const {
  std::vector<Range> all;
  for (const auto& [base, bytes] : segments_) all.push_back({base, bytes});
  return all;
}

std::vector<BlockAllocator::Range> BlockAllocator::EmptySegments() const {
  std::vector<Range> empty;
  for (const auto& [base, bytes] : segments_) {
    const auto hole = free_.find(base);
    if (hole != free_.end() && hole->second == bytes) empty.push_back({base, bytes});
  }
  return empty;
}

std::optional<std::uint64_t> BlockAllocator::Allocate(std::uint64_t bytes) {
  if (bytes > window_bytes_) return std::nullopt;
  const std::uint64_t wanted = RoundUp(bytes);
  const auto best = free_by_size_.lower_bound({wanted, 0});
  if (best == free_by_size_.end()) return std::nullopt;
  const auto [hole, base] = *best;
  RemoveFree(base, hole);
  if (hole > wanted) AddFree(base + wanted, hole - wanted);
  used_[base] = {wanted, bytes};
  free_bytes_ -= wanted;
  return base;
}

std::optional<BlockAllocator::Range> BlockAllocator::Retire(std::uint64_t base) {
  const auto block = used_.find(base);
  if (block == used_.end()) return std::nullopt;
  const Range range{base, block->second.bytes};
  used_.erase(block);
  return range;
}

bool BlockAllocator::Recycle(Range range) {
  auto [hole, bytes] = range;
  free_bytes_ += bytes;
  // Merged with its free neighbours, but never across the border of a segment: a segment may be
  // returned to the driver alone.
  const Range segment = *Segment(hole);
  if (const auto next = free_.find(hole + bytes);
      next != free_.end() && next->first < segment.base + segment.bytes) {
    const auto [next_base, next_bytes] = *next;
    RemoveFree(next_base, next_bytes);
    bytes += next_bytes;
  }
  if (const auto after = free_.lower_bound(hole); after != free_.begin()) {
    const auto [before_base, before_bytes] = *std::prev(after);
    if (before_base + before_bytes == hole && before_base >= segment.base) {
      RemoveFree(before_base, before_bytes);
      hole = before_base;
      bytes += before_bytes;
    }
  }
  AddFree(hole, bytes);
  return bytes == segment.bytes;
}

bool BlockAllocator::Free(std::uint64_t base) {
  const auto range = Retire(base);
  if (range) Recycle(*range);
  return range.has_value();
}

std::optional<BlockAllocator::Range> BlockAllocator::Find(std::uint64_t address) const {
  const auto after = used_.upper_bound(address);
  if (after == used_.begin()) return std::nullopt;
  const auto& [base, block] = *std::prev(after);
  if (address - base >= block.requested) return std::nullopt;
  return Range{base, block.requested};
}

std::optional<BlockAllocator::Range> BlockAllocator::Segment(std::uint64_t address) const {
  const auto after = segments_.upper_bound(address);
  if (after == segments_.begin()) return std::nullopt;
  const auto& [base, bytes] = *std::prev(after);
  if (address - base >= bytes) return std::nullopt;
  return Range{base, bytes};
}

BlockAllocator::Range BlockAllocator::UsedIn(const Range& part) const {
  const std::uint64_t part_end = part.base + part.bytes;
  const auto after = used_.lower_bound(part_end);
  if (after == used_.begin()) return {part.base, 0};
  const auto& [last, block] = *std::prev(after);
  const std::uint64_t end = std::min(last + block.requested, part_end);
  if (end <= part.base) return {part.base, 0};
  const std::uint64_t begin = Find(part.base) ? part.base : used_.lower_bound(part.base)->first;
  return {begin, end - begin};
}

void BlockAllocator::AddFree(std::uint64_t base, std::uint64_t bytes) {
  free_[base] = bytes;
  free_by_size_.insert({bytes, base});
}

void BlockAllocator::RemoveFree(std::uint64_t base, std::uint64_t bytes) {
  free_.erase(base);
  free_by_size_.erase({bytes, base});
}

}  // namespace cuspan

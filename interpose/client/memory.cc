#include "interpose/client/memory.h"

#include <algorithm>

#include "interpose/client/link.h"

namespace cuspan {
namespace {

// Pieces are mapped in multiples of the driver's granularity, and small blocks
// share pieces of kPieceBytes, so that few allocations need a round trip.
constexpr std::uint64_t kGranularity = 2 << 20;
constexpr std::uint64_t kPieceBytes = 64 << 20;
// Blocks from here on have a piece of their own, which goes back to the driver when freed.
constexpr std::uint64_t kLargeBytes = 32 << 20;

std::uint64_t RoundUp(std::uint64_t bytes) {
  return (bytes + kGranularity - 1) / kGranularity * kGranularity;
}

}  // namespace

DeviceMemory::DeviceMemory(Link* link, AddressWindow window)
    : link_(link), window_(window), blocks_(window.base, window.bytes) {}

CUresult DeviceMemory::Allocate(std::uint64_t bytes, std::uint64_t* address) {
  if (bytes > window_.bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  for (;;) {
    {
      std::lock_guard lock(mutex_);
      if (const auto base = blocks_.Allocate(bytes)) {
        *address = *base;
        return CUDA_SUCCESS;
      }
    }
    // Another thread may take what was mapped here: then this goes round again.
    if (const CUresult result = Grow(bytes); result != CUDA_SUCCESS) return result;
  }
}

CUresult DeviceMemory::Grow(std::uint64_t bytes) {
  std::lock_guard growing(growing_);
  {
    // Somebody else may have grown while this thread waited for its turn.
    std::lock_guard lock(mutex_);
    if (const auto base = blocks_.Allocate(bytes)) {
      blocks_.Free(*base);
      return CUDA_SUCCESS;
    }
  }
  const std::uint64_t exact = RoundUp(bytes);
  if (exact < kLargeBytes && Map(kPieceBytes) == CUDA_SUCCESS) return CUDA_SUCCESS;
  CUresult result = Map(exact);
  if (result != CUDA_ERROR_OUT_OF_MEMORY) return result;
  // Before saying so: what lies idle here goes back, and the device is asked once more.
  std::vector<BlockAllocator::Range> idle;
  {
    std::lock_guard lock(mutex_);
    idle = blocks_.EmptySegments();
    for (const auto& segment : idle) blocks_.RemoveSegment(segment.base);
  }
  if (idle.empty()) return result;
  Unmap(idle);
  return Map(exact);
}

CUresult DeviceMemory::Map(std::uint64_t bytes) {
  MemoryMap op;
  op.bytes = bytes;
  {
    std::lock_guard lock(mutex_);
    const auto base = blocks_.PlaceSegment(bytes);
    if (!base) return CUDA_ERROR_OUT_OF_MEMORY;
    op.address = *base;
  }
  MemoryMap::Reply reply;
  const CUresult result = link_->Call(op, &reply);
  if (result != CUDA_SUCCESS) return result;
  std::lock_guard lock(mutex_);
  blocks_.AddSegment({op.address, bytes});
  return CUDA_SUCCESS;
}

void DeviceMemory::Unmap(const std::vector<BlockAllocator::Range>& segments) {
  for (const auto& segment : segments) {
    MemoryUnmap op;
    op.address = segment.base;
    op.bytes = segment.bytes;
    MemoryUnmap::Reply reply;
    // A failure means that the device is lost, which the next call tells.
    static_cast<void>(link_->Call(op, &reply));
  }
}

CUresult DeviceMemory::Free(std::uint64_t address) {
  std::vector<BlockAllocator::Range> idle;
  std::lock_guard growing(growing_);
  {
    std::lock_guard lock(mutex_);
    if (!blocks_.Free(address)) return CUDA_ERROR_INVALID_VALUE;
    const auto segment = *blocks_.Segment(address);
    const auto empty = blocks_.EmptySegments();
    const bool is_empty = std::any_of(empty.begin(), empty.end(),
                                      [&](const auto& e) { return e.base == segment.base; });
    // One shared piece stays, for the next small blocks.
    if (is_empty && (segment.bytes != kPieceBytes || empty.size() > 1)) {
      blocks_.RemoveSegment(segment.base);
      idle.push_back(segment);
    }
  }
  Unmap(idle);
  return CUDA_SUCCESS;
}

std::optional<BlockAllocator::Range> DeviceMemory::Find(std::uint64_t address) const {
  if (region_ != nullptr && region_->Contains(address))
    return region_->Reaches(*link_, address) ? region_->Find(address) : std::nullopt;
  std::shared_lock lock(mutex_);
  if (InWindow(address)) return blocks_.Find(address);
  for (const auto& variable : variables_)
    if (address - variable.base < variable.bytes) return variable;
  return std::nullopt;
}

void DeviceMemory::AddVariable(std::uint64_t address, std::uint64_t bytes) {
  std::lock_guard lock(mutex_);
  variables_.push_back({address, bytes});
}

std::uint64_t DeviceMemory::idle_bytes() const {
  std::shared_lock lock(mutex_);
  return blocks_.free_bytes();
}

}  // namespace cuspan

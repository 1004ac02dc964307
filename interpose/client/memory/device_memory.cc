#include "interpose/client/memory/device_memory.h"

#include <algorithm>

#include "interpose/client/connection/connection.h"
#include "interpose/client/memory/addresses.h"
#include "interpose/client/memory/shared_region.h"
#include "protocol/api/address_plan.h"

namespace cuspan {
namespace {

// Pieces are mapped in multiples of the driver's granularity. Small blocks share pieces of
// kPieceBytes, so few allocations need a round trip.
constexpr std::uint64_t kPieceBytes = 64 << 20;
// Blocks of at least this size have their own piece, returned to the driver when freed.
constexpr std::uint64_t kLargeBytes = 32 << 20;

// Limits of freed blocks before the proxy is asked for the device's progress.
constexpr std::uint64_t kFenceBytes = 8 << 20;
constexpr std::size_t kFenceBlocks = 256;

}  // namespace

DeviceMemory::DeviceMemory(Connection* connection, AddressWindow window, const SharedRegion* region,
                           PieceListener* pieces)
    : connection_(connection),
      window_(window),
      region_(region),
      pieces_(pieces),
      blocks_(window.base, window.bytes) {}

CUresult DeviceMemory::Allocate(std::uint64_t bytes, std::uint64_t* address) {
  if (bytes > window_.bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  if (trim_wanted_.load(std::memory_order_relaxed)) Trim(false);
  for (bool waited = false;;) {
    bool enough_retired = false;
    {
      const WriterLock lock(mutex_);
      if (const auto base = blocks_.Allocate(bytes)) {
        *address = *base;
        return CUDA_SUCCESS;
      }
      enough_retired = retired_bytes_ >= bytes;
    }
    // The program frees as much as it allocates. It waits for its own blocks, as cudaFree itself
    // would have, instead of taking ever more from the device.
    if (enough_retired && !waited) {
      WaitForRetired();
      waited = true;
      if (const CUresult lost = connection_->fault(); lost != CUDA_SUCCESS) return lost;
      continue;
    }
    // Another thread may take the memory mapped here; then this repeats.
    if (const CUresult result = Grow(bytes); result != CUDA_SUCCESS) return result;
  }
}

void DeviceMemory::WaitForRetired() {
  {
    const ReaderLock lock(mutex_);
    if (retired_.empty()) return;
  }
  // The next call reports errors of the device.
  static_cast<void>(connection_->CallAndStore(DeviceSynchronize{}));
}

CUresult DeviceMemory::Grow(std::uint64_t bytes) {
  const MutexLock growing(growing_);
  {
    // Another thread may have grown it while this one waited.
    const WriterLock lock(mutex_);
    if (const auto base = blocks_.Allocate(bytes)) {
      blocks_.Free(*base);
      return CUDA_SUCCESS;
    }
  }
  const std::uint64_t exact = RoundUpToGranularity(bytes);
  if (exact < kLargeBytes && Map(kPieceBytes) == CUDA_SUCCESS) return CUDA_SUCCESS;
  CUresult result = Map(exact);
  if (result != CUDA_ERROR_OUT_OF_MEMORY) return result;
  // Before reporting failure: frees retired blocks, returns idle pieces to the driver, and asks the
  // device once more.
  WaitForRetired();
  TrimLocked(true);
  return Map(exact);
}

void DeviceMemory::GiveBackIdle() {
  WaitForRetired();
  Trim(true);
}

CUresult DeviceMemory::Map(std::uint64_t bytes) {
  MemoryMap op;
  op.bytes = bytes;
  {
    const WriterLock lock(mutex_);
    const auto base = blocks_.PlaceSegment(bytes);
    if (!base) return CUDA_ERROR_OUT_OF_MEMORY;
    op.address = *base;
  }
  MemoryMap::Reply reply;
  CUresult result = connection_->Call(op, &reply);
  if (result != CUDA_SUCCESS) return result;
  growth_.fetch_add(1, std::memory_order_relaxed);
  if (pieces_ != nullptr &&
      (result = pieces_->AfterMap(*connection_, window_, {op.address, bytes})) != CUDA_SUCCESS) {
    Unmap({op.address, bytes});
    return result;
  }
  const WriterLock lock(mutex_);
  blocks_.AddSegment({op.address, bytes});
  return CUDA_SUCCESS;
}

void DeviceMemory::Trim(bool all) {
  const MutexLock growing(growing_);
  TrimLocked(all);
}

void DeviceMemory::TrimLocked(bool all) {
  std::vector<BlockAllocator::Range> idle;
  {
    const WriterLock lock(mutex_);
    trim_wanted_.store(false, std::memory_order_relaxed);
    idle = blocks_.EmptySegments();
    // Keeps one shared piece for the next small blocks.
    const auto kept = std::find_if(idle.begin(), idle.end(),
                                   [](const auto& s) { return s.bytes == kPieceBytes; });
    if (!all && kept != idle.end()) idle.erase(kept);
    for (const auto& segment : idle) blocks_.RemoveSegment(segment.base);
  }
  for (const auto& segment : idle) Unmap(segment);
}

void DeviceMemory::Unmap(const BlockAllocator::Range& segment) {
  if (pieces_ != nullptr) pieces_->BeforeUnmap(*connection_, window_, segment);
  MemoryUnmap op;
  op.address = segment.base;
  op.bytes = segment.bytes;
  MemoryUnmap::Reply reply;
  // A failure means a lost device; the next call reports it.
  static_cast<void>(connection_->Call(op, &reply));
}

CUresult DeviceMemory::Free(std::uint64_t address, std::function<void()> returned) {
  bool ask = false;
  {
    const WriterLock lock(mutex_);
    if (imports_.contains(address)) return CUDA_ERROR_INVALID_VALUE;
    const auto range = blocks_.Retire(address);
    if (!range) return CUDA_ERROR_INVALID_VALUE;
    connection_->common().blocks_version.fetch_add(1, std::memory_order_release);
    // Read here, so fences increase along the queue.
    const std::uint64_t fence = connection_->LastPosted();
    if (fence > completed_.load(std::memory_order_relaxed)) {
      retired_.push_back({*range, fence, std::move(returned)});
      retired_bytes_ += range->bytes;
      unfenced_bytes_ += range->bytes;
      ask = unfenced_bytes_ >= kFenceBytes || ++unfenced_blocks_ >= kFenceBlocks;
      if (ask) unfenced_bytes_ = unfenced_blocks_ = 0;
      returned = nullptr;
    } else {
      Recycle(*range);
    }
  }
  if (returned) returned();
  if (trim_wanted_.load(std::memory_order_relaxed)) Trim(false);
  return ask ? connection_->Send(Fence{}) : CUDA_SUCCESS;
}

void DeviceMemory::Recycle(BlockAllocator::Range range) {
  if (!blocks_.Recycle(range)) return;
  const bool spare =
      blocks_.Segment(range.base)->bytes != kPieceBytes || blocks_.EmptySegments().size() > 1;
  if (spare) trim_wanted_.store(true, std::memory_order_relaxed);
}

void DeviceMemory::Completed(std::uint64_t sequence) {
  std::vector<std::function<void()>> returned;
  {
    const WriterLock lock(mutex_);
    if (sequence <= completed_.load(std::memory_order_relaxed)) return;
    completed_.store(sequence, std::memory_order_release);
    while (!retired_.empty() && retired_.front().fence <= sequence) {
      Retired& block = retired_.front();
      retired_bytes_ -= block.range.bytes;
      Recycle(block.range);
      if (block.returned) returned.push_back(std::move(block.returned));
      retired_.pop_front();
    }
    if (retired_.empty()) unfenced_bytes_ = unfenced_blocks_ = 0;
  }
  for (const auto& call : returned) call();
}

CUresult DeviceMemory::Import(const std::string& exchange, BlockAllocator::Range piece,
                              std::uint64_t* base) {
  const MutexLock growing(growing_);
  MemoryImport op;
  op.exchange = exchange;
  op.address = piece.base;
  op.bytes = piece.bytes;
  {
    const WriterLock lock(mutex_);
    const auto place = blocks_.PlaceSegment(piece.bytes);
    if (!place) return CUDA_ERROR_MAP_FAILED;
    op.at = *place;
  }
  MemoryImport::Reply reply;
  if (const CUresult result = connection_->Call(op, &reply); result != CUDA_SUCCESS) return result;
  const WriterLock lock(mutex_);
  blocks_.AddTaken({op.at, piece.bytes});
  imports_.insert(op.at);
  *base = op.at;
  return CUDA_SUCCESS;
}

CUresult DeviceMemory::EndImport(std::uint64_t base) {
  const MutexLock growing(growing_);
  MemoryImportEnd op;
  op.at = base;
  {
    const WriterLock lock(mutex_);
    const auto segment = blocks_.Segment(base);
    if (!imports_.contains(base) || !segment) return CUDA_ERROR_INVALID_VALUE;
    op.bytes = segment->bytes;
  }
  MemoryImportEnd::Reply reply;
  // A piece not returned stays mapped, and still belongs to another session.
  if (const CUresult result = connection_->Call(op, &reply); result != CUDA_SUCCESS) return result;
  const WriterLock lock(mutex_);
  imports_.erase(base);
  imported_blocks_.erase(imported_blocks_.lower_bound(base),
                         imported_blocks_.lower_bound(base + op.bytes));
  blocks_.RemoveTaken(base);
  connection_->common().blocks_version.fetch_add(1, std::memory_order_release);
  return CUDA_SUCCESS;
}

void DeviceMemory::AddImportedBlock(BlockAllocator::Range block) {
  const WriterLock lock(mutex_);
  imported_blocks_[block.base] = block.bytes;
}

void DeviceMemory::RemoveImportedBlock(std::uint64_t base) {
  const WriterLock lock(mutex_);
  imported_blocks_.erase(base);
  connection_->common().blocks_version.fetch_add(1, std::memory_order_release);
}

std::optional<BlockAllocator::Range> DeviceMemory::FindBlock(std::uint64_t address) const {
  const auto block = blocks_.Find(address);
  if (!block || !imports_.contains(block->base)) return block;
  const auto after = imported_blocks_.upper_bound(address);
  if (after == imported_blocks_.begin()) return std::nullopt;
  const auto [base, bytes] = *std::prev(after);
  return address - base < bytes ? std::optional(BlockAllocator::Range{base, bytes}) : std::nullopt;
}

std::vector<BlockAllocator::Range> DeviceMemory::Pieces() const {
  const ReaderLock lock(mutex_);
  std::vector<BlockAllocator::Range> own = blocks_.Segments();
  std::erase_if(own, [&](const auto& segment) CUSPAN_REQUIRES_SHARED(mutex_) {
    return imports_.contains(segment.base);
  });
  return own;
}

std::optional<BlockAllocator::Range> DeviceMemory::OwnPiece(std::uint64_t address) const {
  const ReaderLock lock(mutex_);
  const auto piece = InWindow(address) ? blocks_.Segment(address) : std::nullopt;
  return piece && !imports_.contains(piece->base) ? piece : std::nullopt;
}

std::optional<BlockAllocator::Range> DeviceMemory::Piece(std::uint64_t address) const {
  const ReaderLock lock(mutex_);
  return InWindow(address) ? blocks_.Segment(address) : std::nullopt;
}

std::optional<BlockAllocator::Range> DeviceMemory::Find(std::uint64_t address) const {
  if (region_ != nullptr && region_->Contains(address))
    return region_->Reaches(*connection_, address) ? region_->Find(address) : std::nullopt;
  const ReaderLock lock(mutex_);
  if (InWindow(address)) return FindBlock(address);
  if (MayReserve(address, 1)) return mapped_.Find(address);
  for (const auto& variable : variables_)
    if (address - variable.base < variable.bytes) return variable;
  return std::nullopt;
}

bool DeviceMemory::Covers(std::uint64_t address, std::uint64_t bytes) const {
  if (MayReserve(address, bytes)) {
    const ReaderLock lock(mutex_);
    return mapped_.Covers(address, bytes);
  }
  const auto range = Find(address);
  return range && bytes <= range->bytes - (address - range->base);
}

bool DeviceMemory::Owns(std::uint64_t address) const {
  if (!MayReserve(address, 1)) return InWindow(address);
  const ReaderLock lock(mutex_);
  return mapped_.Owns(address);
}

void DeviceMemory::AddMapped(BlockAllocator::Range range, bool own) {
  const WriterLock lock(mutex_);
  mapped_.Add(range, own);
}

void DeviceMemory::RemoveMapped(std::uint64_t base) {
  const WriterLock lock(mutex_);
  mapped_.Remove(base);
}

void DeviceMemory::SetMappedAccess(std::uint64_t base, bool accessible) {
  const WriterLock lock(mutex_);
  mapped_.SetAccess(base, accessible);
}

void DeviceMemory::AddVariable(std::uint64_t address, std::uint64_t bytes) {
  const WriterLock lock(mutex_);
  variables_.push_back({address, bytes});
}

void DeviceMemory::RemoveVariable(std::uint64_t address) {
  const WriterLock lock(mutex_);
  std::erase_if(variables_, [&](const auto& variable) { return variable.base == address; });
}

std::uint64_t DeviceMemory::idle_bytes() const {
  const ReaderLock lock(mutex_);
  return blocks_.free_bytes() + retired_bytes_;
}

}  // namespace cuspan

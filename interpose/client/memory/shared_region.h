// Memory with one address in the program and in the kernels of all devices: page-locked host memory
// and managed memory.
//
// The region is one range of addresses, with one file in memory behind it. The client reserves the
// addresses when the session starts, and each proxy reserves them, too. The lower half is for
// page-locked memory, the upper for managed memory. A proxy on this node maps the file, so both
// sides use the same pages. A proxy elsewhere has device memory at these addresses; the client
// keeps it equal to its own (mirrors.h). The same is done in the last quarter if the program has
// only one device: kernels are many times slower over PCIe (500 times with atomic additions of an
// H200). Several devices would have to take turns there. Memory not fitting on this device is in
// the third quarter.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "common/mutex.h"
#include "common/unique_fd.h"
#include "interpose/client/connection/connection.h"
#include "interpose/client/memory/block_allocator.h"
#include "interpose/client/memory/mirrors.h"
#include "interpose/client/memory/refresher.h"
#include "interpose/client/memory/registered_memory.h"
#include "structs.gen.h"

namespace cuspan {

// Threads: any.
class SharedRegion {
 public:
  using ContextConnections = std::function<std::vector<std::shared_ptr<Connection>>()>;
  // `connections` returns the open connections. Without addresses or a file the region does not
  // exist; this is logged at the first need.
  explicit SharedRegion(ContextConnections connections);
  SharedRegion(const SharedRegion&) = delete;

  bool available() const { return window_.bytes != 0; }
  const AddressWindow& window() const { return window_; }
  int file() const { return file_.get(); }
  bool Contains(std::uint64_t address) const { return address - window_.base < window_.bytes; }
  // Bytes of the file, from its start, mapped by a proxy of this node.
  std::uint64_t FileBytes(bool mirrors_managed) const {
    return mirrors_managed ? window_.bytes / 4 * 3 : window_.bytes;
  }
  bool IsManaged(std::uint64_t address) const {
    return Contains(address) && address - window_.base >= window_.bytes / 2;
  }

  enum class Kind { kHost, kManaged };
  // Allocates zeroed memory, at least 512-byte aligned. CUDA_ERROR_OUT_OF_MEMORY if the host or a
  // device has no more, CUDA_ERROR_NOT_SUPPORTED without a region.
  CUresult Allocate(Kind kind, std::uint64_t bytes, std::uint64_t* address);
  // Frees a block no longer used by any device. CUDA_ERROR_INVALID_VALUE if none starts there.
  CUresult Free(std::uint64_t address);
  // Returns the block containing `address`, with the requested size.
  std::optional<BlockAllocator::Range> Find(std::uint64_t address) const;

  // True if kernels and copies of the device may use this memory as their own.
  bool Reaches(const Connection& connection, std::uint64_t address) const;
  // Makes page-locked memory there usable for kernels of all devices.
  CUresult Expose(std::uint64_t address);
  // Same for all page-locked memory referenced by a kernel's parameters. `arguments`: the
  // parameters in sequence, without gaps; `sizes`: their bytes. A pointer is within one parameter,
  // at a multiple of its own size.
  CUresult ExposePointers(std::span<const std::byte> arguments,
                          std::span<const std::uint32_t> sizes);

  // Maps existing memory on a device being opened; it must not be used by others before.
  CUresult Attach(Connection& connection);
  // Called when the device is gone.
  void Forget(const Connection& connection);

  // True if kernels may ever have written memory here read by the program. It has managed memory,
  // requested the device address of page-locked memory, or passed an address of it to a kernel.
  bool used_by_kernels() const { return used_by_kernels_.load(std::memory_order_relaxed); }

  // True if any device may still be doing work using memory here. Requests a report of the end of
  // this work.
  bool AnyAtWork() const;

  Mirrors& mirrors() { return mirrors_; }
  RegisteredMemory& registered() { return registered_; }
  Refresher& refresher() { return refresher_; }

 private:
  struct Segment {
    BlockAllocator::Range range;
    bool mirrored;  // Exists on devices elsewhere, too.
  };
  enum class Part { kHost, kManaged, kManagedOnDevice };
  Part PartOf(std::uint64_t address) const {
    if (!IsManaged(address)) return Part::kHost;
    return address - window_.base < FileBytes(true) ? Part::kManaged : Part::kManagedOnDevice;
  }
  const BlockAllocator& Blocks(Part part) const CUSPAN_REQUIRES_SHARED(mutex_) {
    return part == Part::kHost ? host_ : part == Part::kManaged ? managed_ : managed_on_device_;
  }
  BlockAllocator& Blocks(Part part) CUSPAN_REQUIRES(mutex_) {
    return part == Part::kHost ? host_ : part == Part::kManaged ? managed_ : managed_on_device_;
  }
  CUresult AllocateAvailable(Kind kind, std::uint64_t bytes, std::uint64_t* address);
  CUresult AllocateIn(Part part, std::uint64_t bytes, std::uint64_t* address);
  CUresult Grow(Part part, std::uint64_t bytes);
  // True if the device has, or would have, its own memory for it.
  bool IsMirroredOn(const Connection& connection, const Segment& segment) const;
  CUresult MapOn(Connection& connection, const Segment& segment) CUSPAN_REQUIRES(growing_);
  void UnmapOn(Connection& connection, const Segment& segment) CUSPAN_REQUIRES(growing_);
  CUresult BackHere(const BlockAllocator::Range& range);
  void DropHere(const BlockAllocator::Range& range);
  Segment* FindSegment(std::uint64_t address) CUSPAN_REQUIRES_SHARED(mutex_);
  BlockAllocator::Range UsedIn(const BlockAllocator::Range& part) const;
  void CountBlock(Part part, int change) CUSPAN_REQUIRES(mutex_);
  std::optional<Refresher::Time> Refresh(Refresher::Time now);

  const ContextConnections connections_;
  AddressWindow window_;
  UniqueFd file_;
  Mutex growing_;  // Held while segments are added or removed and devices are attached.
  std::set<std::uint64_t> attached_ CUSPAN_GUARDED_BY(growing_);  // Connections with all segments.
  mutable SharedMutex mutex_;                                     // Taken after growing_.
  BlockAllocator host_ CUSPAN_GUARDED_BY(mutex_);
  BlockAllocator managed_ CUSPAN_GUARDED_BY(mutex_);
  BlockAllocator managed_on_device_ CUSPAN_GUARDED_BY(mutex_);
  std::vector<Segment> segments_ CUSPAN_GUARDED_BY(mutex_);
  std::size_t pinned_in_use_ CUSPAN_GUARDED_BY(mutex_) = 0;   // Blocks.
  std::size_t managed_in_use_ CUSPAN_GUARDED_BY(mutex_) = 0;  // Blocks.
  std::atomic<bool> has_unmirrored_{false};
  std::atomic<bool> used_by_kernels_{false};
  Mirrors mirrors_;
  RegisteredMemory registered_{this};
  Refresher refresher_;  // Last: uses the others.
};

}  // namespace cuspan

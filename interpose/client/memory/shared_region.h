// Memory that has one address in the program and in the kernels of all devices:
// page-locked host memory and managed memory.
//
// The region is one range of addresses, reserved when the session starts and again by each
// proxy, and one file in memory behind it. Its lower half is for page-locked memory, the upper for
// managed memory. A proxy on this node maps the file, so that both sides use the same
// pages. A proxy elsewhere has device memory at these addresses, which the client
// keeps equal to its own: mirrors.h. So has, for the last quarter, the proxy of the only device of
// a program: over PCIe kernels are many times as slow (500 times with atomic additions of an H200),
// while several devices would take turns. What does not fit that device lies in the quarter before.
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

// Any thread.
class SharedRegion {
 public:
  using ContextConnections = std::function<std::vector<std::shared_ptr<Connection>>()>;
  // `connections` gives those that are open. Without addresses or a file there is no region, which
  // is logged at the first need.
  explicit SharedRegion(ContextConnections connections);
  SharedRegion(const SharedRegion&) = delete;

  bool available() const { return window_.bytes != 0; }
  const AddressWindow& window() const { return window_; }
  int file() const { return file_.get(); }
  bool Contains(std::uint64_t address) const { return address - window_.base < window_.bytes; }
  // Of the file, from its start, what a proxy of this node maps.
  std::uint64_t FileBytes(bool mirrors_managed) const {
    return mirrors_managed ? window_.bytes / 4 * 3 : window_.bytes;
  }
  bool IsManaged(std::uint64_t address) const {
    return Contains(address) && address - window_.base >= window_.bytes / 2;
  }

  enum class Kind { kHost, kManaged };
  // Zeroed, at least 512-byte aligned. CUDA_ERROR_OUT_OF_MEMORY when the host or a device has no
  // more, CUDA_ERROR_NOT_SUPPORTED without a region.
  CUresult Allocate(Kind kind, std::uint64_t bytes, std::uint64_t* address);
  // No device uses it any more. CUDA_ERROR_INVALID_VALUE when nothing starts there.
  CUresult Free(std::uint64_t address);
  // The block that holds `address`, with the size that was asked for.
  std::optional<BlockAllocator::Range> Find(std::uint64_t address) const;

  // Whether kernels and copies of the device may use this memory as their own.
  bool Reaches(const Connection& connection, std::uint64_t address) const;
  // Makes sure that kernels of all devices can use the page-locked memory there.
  CUresult Expose(std::uint64_t address);
  // The same for all page-locked memory to which a kernel's parameters point. `arguments`: the
  // parameters one behind the other, without gaps; `sizes`: their bytes. A pointer lies within one
  // parameter, at a multiple of its own size.
  CUresult ExposePointers(std::span<const std::byte> arguments,
                          std::span<const std::uint32_t> sizes);

  // Gives a device that is being opened what exists; others must not use it before.
  CUresult Attach(Connection& connection);
  // The device is gone.
  void Forget(const Connection& connection);

  // Whether kernels may ever have written memory here that the program reads: it has managed
  // memory, asked for the device's address of page-locked memory, or gave a kernel an address of
  // it.
  bool used_by_kernels() const { return used_by_kernels_.load(std::memory_order_relaxed); }

  // Whether any device may still be doing work that uses memory here; it is asked to say when it
  // has done that.
  bool AnyAtWork() const;

  Mirrors& mirrors() { return mirrors_; }
  RegisteredMemory& registered() { return registered_; }
  Refresher& refresher() { return refresher_; }

 private:
  struct Segment {
    BlockAllocator::Range range;
    bool mirrored;  // Devices elsewhere have it, too.
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
  // Whether the device has, or would have, memory of its own for it.
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
  Mutex growing_;  // Held while segments come and go and devices are attached.
  std::set<std::uint64_t> attached_
      CUSPAN_GUARDED_BY(growing_);  // Numbers of those that have all segments.
  mutable SharedMutex mutex_;       // Taken after growing_.
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
  Refresher refresher_;  // Uses the others.
};

}  // namespace cuspan

// The memory of one device, as this process uses it: large pieces mapped by the
// proxy, cut into blocks here.
//
// A freed block is given out again only when the device has done all that was
// posted before it was freed. Nobody waits for that: each freed block carries
// the number of the last op before it (its fence), and the proxy tells how far
// the device has come, when it is asked to (the op Fence) or because the program
// synchronised.
#pragma once

#include <cuda.h>

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/mutex.h"
#include "interpose/client/memory/block_allocator.h"
#include "interpose/client/memory/mapped_ranges.h"
#include "structs.gen.h"

namespace cuspan {

class Connection;
class SharedRegion;

// Who is told of the pieces of memory that a device has.
class PieceListener {
 public:
  // `owner`, whose memory lies in `window`, has new memory, before it is used.
  virtual CUresult AfterMap(const Connection& owner, const AddressWindow& window,
                            const BlockAllocator::Range& piece) = 0;
  // It gives memory back, which nobody uses any more.
  virtual void BeforeUnmap(const Connection& owner, const AddressWindow& window,
                           const BlockAllocator::Range& piece) = 0;

 protected:
  ~PieceListener() = default;
};

class DeviceMemory {
 public:
  // All outlive it. Find also finds what the device may use of `region`; that and `pieces` may be
  // null.
  DeviceMemory(Connection* connection, AddressWindow window, const SharedRegion* region,
               PieceListener* pieces);

  // CUDA_ERROR_OUT_OF_MEMORY when neither the pieces at hand nor the device have room, also
  // after the device has done everything that freed blocks wait for.
  CUresult Allocate(std::uint64_t bytes, std::uint64_t* address);
  // CUDA_ERROR_INVALID_VALUE when no block starts there. `returned`, if any, is called without
  // locks by some thread when the block may be given out again; it must not block.
  CUresult Free(std::uint64_t address, std::function<void()> returned = nullptr);
  // Everything posted up to `sequence` is complete on the device. Also for the receiver thread.
  void Completed(std::uint64_t sequence);
  std::uint64_t completed() const { return completed_.load(std::memory_order_acquire); }

  // Gives back to the device what is mapped and not in use, when freed blocks are.
  void GiveBackIdle();
  // How often more was mapped.
  std::uint64_t growth() const { return growth_.load(std::memory_order_relaxed); }

  // True when `address` may be of a block of this device: inside its window.
  bool InWindow(std::uint64_t address) const { return address - window_.base < window_.bytes; }
  const AddressWindow& window() const { return window_; }
  // All that the proxy has mapped in the window, and the part of it that holds `address`.
  std::vector<BlockAllocator::Range> Pieces() const;
  std::optional<BlockAllocator::Range> Piece(std::uint64_t address) const;
  // The same, without what Import maps.
  std::optional<BlockAllocator::Range> OwnPiece(std::uint64_t address) const;
  // Maps a piece that another session's proxy (which answers at `exchange`) has, at *base.
  // CUDA_ERROR_MAP_FAILED when it can not be had.
  CUresult Import(const std::string& exchange, BlockAllocator::Range piece, std::uint64_t* base);
  // Undoes it, when the device has done all that was posted before.
  CUresult EndImport(std::uint64_t base);
  // Blocks in imported pieces that the program may use; nothing else is found there.
  void AddImportedBlock(BlockAllocator::Range block);
  void RemoveImportedBlock(std::uint64_t base);
  // Whether it is one of the device's own addresses, or of its memory where the program mapped it.
  bool Owns(std::uint64_t address) const;
  // What the program itself maps, and may or may not use on the device.
  void AddMapped(BlockAllocator::Range range, bool own);
  void RemoveMapped(std::uint64_t base);
  void SetMappedAccess(std::uint64_t base, bool accessible);
  // The block, the mapping or the module variable that holds `address`.
  std::optional<BlockAllocator::Range> Find(std::uint64_t address) const;
  // Whether all of [address, address + bytes) is one of these, or mappings side by side that the
  // device has access to.
  bool Covers(std::uint64_t address, std::uint64_t bytes) const;
  // A variable of a loaded module, which the driver placed where it likes.
  void AddVariable(std::uint64_t address, std::uint64_t bytes);
  void RemoveVariable(std::uint64_t address);
  // What is mapped and not in use.
  std::uint64_t idle_bytes() const;

 private:
  struct Retired {
    BlockAllocator::Range range;
    std::uint64_t fence;
    std::function<void()> returned;
  };
  std::optional<BlockAllocator::Range> FindBlock(std::uint64_t address) const
      CUSPAN_REQUIRES_SHARED(mutex_);
  CUresult Grow(std::uint64_t bytes);
  CUresult Map(std::uint64_t bytes);
  void Unmap(const BlockAllocator::Range& segment);
  // Gives back what is idle: all of it, or what is not kept for the next blocks.
  void Trim(bool all);
  void TrimLocked(bool all);                                          // Under growing_.
  void Recycle(BlockAllocator::Range range) CUSPAN_REQUIRES(mutex_);  // Under mutex_.
  // Waits until the device has done what freed blocks wait for.
  void WaitForRetired();

  Connection* const connection_;
  const AddressWindow window_;
  const SharedRegion* const region_;
  PieceListener* const pieces_;
  Mutex growing_;  // Held while the proxy maps or unmaps; the blocks stay usable.
  mutable SharedMutex mutex_;
  BlockAllocator blocks_ CUSPAN_GUARDED_BY(mutex_);
  std::set<std::uint64_t> imports_ CUSPAN_GUARDED_BY(mutex_);  // The bases of imported pieces.
  std::map<std::uint64_t, std::uint64_t> imported_blocks_
      CUSPAN_GUARDED_BY(mutex_);  // base → bytes
  std::vector<BlockAllocator::Range> variables_ CUSPAN_GUARDED_BY(mutex_);
  MappedRanges mapped_ CUSPAN_GUARDED_BY(mutex_);
  std::deque<Retired> retired_ CUSPAN_GUARDED_BY(mutex_);  // In the order of their fences, nearly.
  std::uint64_t retired_bytes_ CUSPAN_GUARDED_BY(mutex_) = 0;  // Of all of them,
  std::uint64_t unfenced_bytes_ CUSPAN_GUARDED_BY(mutex_) =
      0;  // and of those since a fence was asked for.
  std::size_t unfenced_blocks_ CUSPAN_GUARDED_BY(mutex_) = 0;
  std::atomic<std::uint64_t> completed_ = 0;
  std::atomic<std::uint64_t> growth_ = 0;
  std::atomic<bool> trim_wanted_ = false;  // A segment is empty that need not be kept.
};

}  // namespace cuspan

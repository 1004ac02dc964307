// Memory of one device, as used by this process: large pieces mapped by the proxy, divided into
// blocks here.
//
// A freed block is reused only when the device has done everything posted before it was freed. No
// thread waits for this: each freed block has a fence, the number of the last op before it. The
// proxy reports the device's progress on request (the op Fence), or because the program
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

// Receives notifications of a device's pieces of memory.
class PieceListener {
 public:
  // Called when `owner`, with memory in `window`, has a new piece, before its use.
  virtual CUresult AfterMap(const Connection& owner, const AddressWindow& window,
                            const BlockAllocator::Range& piece) = 0;
  // Called before it returns a piece no longer used.
  virtual void BeforeUnmap(const Connection& owner, const AddressWindow& window,
                           const BlockAllocator::Range& piece) = 0;

 protected:
  ~PieceListener() = default;
};

class DeviceMemory {
 public:
  // All must outlive it. Find also finds memory of `region` usable by the device. `region` and
  // `pieces` may be null.
  DeviceMemory(Connection* connection, AddressWindow window, const SharedRegion* region,
               PieceListener* pieces);

  // CUDA_ERROR_OUT_OF_MEMORY if neither the mapped pieces nor the device have enough memory. Before
  // failing, it waits for the work delaying freed blocks.
  CUresult Allocate(std::uint64_t bytes, std::uint64_t* address);
  // CUDA_ERROR_INVALID_VALUE if no block starts there. `returned`, if any, is called without locks
  // by some thread when the block may be reused; it must not block.
  CUresult Free(std::uint64_t address, std::function<void()> returned = nullptr);
  // Called when everything posted up to `sequence` is complete. Threads: any, also the receiver.
  void Completed(std::uint64_t sequence);
  std::uint64_t completed() const { return completed_.load(std::memory_order_acquire); }

  // Waits until freed blocks are reusable, then returns unused pieces to the device.
  void GiveBackIdle();
  // Number of pieces mapped so far.
  std::uint64_t growth() const { return growth_.load(std::memory_order_relaxed); }

  // True if `address` is inside this device's window, like all its blocks.
  bool InWindow(std::uint64_t address) const { return address - window_.base < window_.bytes; }
  const AddressWindow& window() const { return window_; }
  // All pieces mapped by the proxy in the window, and the one containing `address`.
  std::vector<BlockAllocator::Range> Pieces() const;
  std::optional<BlockAllocator::Range> Piece(std::uint64_t address) const;
  // Same, without imported pieces.
  std::optional<BlockAllocator::Range> OwnPiece(std::uint64_t address) const;
  // Maps a piece of another session's proxy (reachable at `exchange`) at *base.
  // CUDA_ERROR_MAP_FAILED if this is not possible.
  CUresult Import(const std::string& exchange, BlockAllocator::Range piece, std::uint64_t* base);
  // Undoes Import, after the device has done everything posted before.
  CUresult EndImport(std::uint64_t base);
  // Blocks in imported pieces usable by the program; Find finds nothing else there.
  void AddImportedBlock(BlockAllocator::Range block);
  void RemoveImportedBlock(std::uint64_t base);
  // True if it is one of the device's own addresses, or in a mapping of its memory by the program.
  bool Owns(std::uint64_t address) const;
  // Mappings made by the program, with or without access by the device.
  void AddMapped(BlockAllocator::Range range, bool own);
  void RemoveMapped(std::uint64_t base);
  void SetMappedAccess(std::uint64_t base, bool accessible);
  // Returns the block, the mapping or the module variable containing `address`.
  std::optional<BlockAllocator::Range> Find(std::uint64_t address) const;
  // True if all of [address, address + bytes) is in one of these, or in adjacent mappings
  // accessible to the device.
  bool Covers(std::uint64_t address, std::uint64_t bytes) const;
  // A variable of a loaded module, at an address chosen by the driver.
  void AddVariable(std::uint64_t address, std::uint64_t bytes);
  void RemoveVariable(std::uint64_t address);
  // Bytes mapped and not in use.
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
  // Returns idle pieces to the driver: all, or those not kept for the next blocks.
  void Trim(bool all);
  void TrimLocked(bool all);                                          // Under growing_.
  void Recycle(BlockAllocator::Range range) CUSPAN_REQUIRES(mutex_);  // Under mutex_.
  // Waits until the device has done the work delaying freed blocks.
  void WaitForRetired();

  Connection* const connection_;
  const AddressWindow window_;
  const SharedRegion* const region_;
  PieceListener* const pieces_;
  Mutex growing_;  // Held while the proxy maps or unmaps; the blocks stay usable.
  mutable SharedMutex mutex_;
  BlockAllocator blocks_ CUSPAN_GUARDED_BY(mutex_);
  std::set<std::uint64_t> imports_ CUSPAN_GUARDED_BY(mutex_);  // Bases of imported pieces.
  std::map<std::uint64_t, std::uint64_t> imported_blocks_
      CUSPAN_GUARDED_BY(mutex_);  // base → bytes
  std::vector<BlockAllocator::Range> variables_ CUSPAN_GUARDED_BY(mutex_);
  MappedRanges mapped_ CUSPAN_GUARDED_BY(mutex_);
  std::deque<Retired> retired_ CUSPAN_GUARDED_BY(mutex_);  // Nearly in the order of their fences.
  std::uint64_t retired_bytes_ CUSPAN_GUARDED_BY(mutex_) = 0;   // Bytes of all of them.
  std::uint64_t unfenced_bytes_ CUSPAN_GUARDED_BY(mutex_) = 0;  // Since the last fence request.
  std::size_t unfenced_blocks_ CUSPAN_GUARDED_BY(mutex_) = 0;
  std::atomic<std::uint64_t> completed_ = 0;
  std::atomic<std::uint64_t> growth_ = 0;
  std::atomic<bool> trim_wanted_ = false;  // True if a segment is empty and not to be kept.
};

}  // namespace cuspan

// The memory of one device, as this process uses it: large pieces mapped by the
// proxy, cut into blocks here.
#pragma once

#include <cuda.h>

#include <mutex>
#include <optional>
#include <shared_mutex>
#include <vector>

#include "interpose/client/block_allocator.h"
#include "protocol/api/types.h"

namespace cuspan {

class Link;
class SharedRegion;

class DeviceMemory {
 public:
  DeviceMemory(Link* link, AddressWindow window);

  // CUDA_ERROR_OUT_OF_MEMORY when neither the pieces at hand nor the device have room.
  CUresult Allocate(std::uint64_t bytes, std::uint64_t* address);
  // The device must be done with the block. CUDA_ERROR_INVALID_VALUE when none starts there.
  CUresult Free(std::uint64_t address);
  // True when `address` may belong to this device: inside its window, or a variable's.
  bool InWindow(std::uint64_t address) const { return address - window_.base < window_.bytes; }
  // The block or the module variable that holds `address`.
  std::optional<BlockAllocator::Range> Find(std::uint64_t address) const;
  // Find also finds what of this region the device may use.
  void SetShared(const SharedRegion* region) { region_ = region; }
  // A variable of a loaded module, which the driver placed where it likes.
  void AddVariable(std::uint64_t address, std::uint64_t bytes);
  // What is mapped and not in use.
  std::uint64_t idle_bytes() const;

 private:
  CUresult Grow(std::uint64_t bytes);
  CUresult Map(std::uint64_t bytes);
  void Unmap(const std::vector<BlockAllocator::Range>& segments);

  Link* const link_;
  const AddressWindow window_;
  const SharedRegion* region_ = nullptr;
  std::mutex growing_;  // Held while the proxy maps or unmaps; the blocks stay usable.
  mutable std::shared_mutex mutex_;
  BlockAllocator blocks_;
  std::vector<BlockAllocator::Range> variables_;
};

}  // namespace cuspan

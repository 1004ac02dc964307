// Memory mapped in the window and in the shared region.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "common/mutex.h"
#include "proxy/gpu/device.h"
#include "proxy/gpu/swap_copies.h"

namespace cuspan::proxy {

// The destructor unmaps all remaining memory. Threads: one at a time; Export: any.
class Mappings {
 public:
  // Size of Export's trial allocation.
  static constexpr std::uint64_t kTrialBytes = 2 << 20;

  Mappings(const Driver& driver, const Device& device) : driver_(driver), device_(device) {}
  Mappings(const Mappings&) = delete;
  ~Mappings();

  // Enables swapping, in pieces of `piece_bytes` (the driver's allocation unit). Export is
  // disabled. To be called before the first Map.
  void MaySwap(SwapCopies& copies, std::uint64_t piece_bytes) {
    copies_ = &copies;
    piece_bytes_ = piece_bytes;
  }
  // Saves memory to the host and releases it, until `bytes` (rounded up to pieces) or all are
  // released. No memory may be in use. After a failure, a part is swapped out; SwapIn restores it.
  CUresult SwapOut(std::uint64_t bytes);
  // Restores all swapped memory at its addresses. After CUDA_ERROR_OUT_OF_MEMORY, it may be called
  // again.
  CUresult SwapIn();
  // Number of bytes swapped out.
  std::uint64_t swapped_bytes() const;

  // Maps new memory at [address, address + bytes), readable and writable by the device. In the
  // file's part of the shared region, maps the file. CUDA_ERROR_ALREADY_MAPPED if it overlaps an
  // earlier mapping; otherwise the driver's result.
  CUresult Map(std::uint64_t address, std::uint64_t bytes);
  // Undoes exactly one Map; CUDA_ERROR_INVALID_VALUE if there was no such Map.
  CUresult Unmap(std::uint64_t address, std::uint64_t bytes);
  // Returns the file of device memory mapped by exactly one Map, for use by another process of this
  // node. If address and bytes are 0, exports new memory of kTrialBytes, as a test.
  CUresult Export(std::uint64_t address, std::uint64_t bytes, UniqueFd* file);

 private:
  // Maps a part of the shared region's file at the same address, and pins it for the device.
  CUresult MapFile(std::uint64_t address, std::uint64_t bytes);
  CUresult UnmapFile(std::uint64_t address, std::uint64_t bytes);
  bool IsFile(std::uint64_t address, std::uint64_t bytes) const {
    return device_.InFile(address, bytes);
  }
  bool Meets(std::uint64_t address, std::uint64_t bytes) const;
  struct Piece {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    CUmemGenericAllocationHandle memory = 0;  // 0: swapped out.
  };
  struct Mapped {
    std::uint64_t bytes = 0;
    std::vector<Piece> pieces;  // Empty: the file's.
    MemoryAccount::Taken taken;
  };
  // Creates and maps the piece's memory. On failure, releases it.
  CUresult Back(Piece& piece) const;
  CUresult BackAll(std::vector<Piece>& pieces) const;
  CUresult GiveBack(Piece& piece) const;

  const Driver& driver_;
  const Device& device_;
  SwapCopies* copies_ = nullptr;
  std::uint64_t piece_bytes_ = ~std::uint64_t{0};
  mutable Mutex mutex_;
  std::map<std::uint64_t, Mapped> mapped_ CUSPAN_GUARDED_BY(mutex_);  // Key: address.
};

}  // namespace cuspan::proxy

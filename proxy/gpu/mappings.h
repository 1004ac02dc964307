// Memory behind parts of the window and of the shared region.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "common/mutex.h"
#include "proxy/gpu/device.h"
#include "proxy/gpu/swap_copies.h"

namespace cuspan::proxy {

// Threads: one at a time; Export: any. What is still mapped at the end is given back.
class Mappings {
 public:
  // Of what Export makes to try.
  static constexpr std::uint64_t kTrialBytes = 2 << 20;

  Mappings(const Driver& driver, const Device& device) : driver_(driver), device_(device) {}
  Mappings(const Mappings&) = delete;
  ~Mappings();

  // The memory may be swapped out from now on, in pieces of `piece_bytes` (what the driver gives it
  // by); nothing of it is exported. Before the first Map.
  void MaySwap(SwapCopies& copies, std::uint64_t piece_bytes) {
    copies_ = &copies;
    piece_bytes_ = piece_bytes;
  }
  // Gives the driver so many bytes back, or a piece more, or all, and keeps what is in them.
  // Nothing of the memory may be in use. After a failure some of it is out; SwapIn brings that
  // back.
  CUresult SwapOut(std::uint64_t bytes);
  // Brings all that is out back, to where it was. CUDA_ERROR_OUT_OF_MEMORY: another try may follow.
  CUresult SwapIn();
  // What is out.
  std::uint64_t swapped_bytes() const;

  // Backs [address, address + bytes) with new memory that the device may read
  // and write; in a shared region that has a file, with the file's. CUDA_ERROR_ALREADY_MAPPED when
  // it meets an earlier mapping; otherwise as the driver says.
  CUresult Map(std::uint64_t address, std::uint64_t bytes);
  // Undoes exactly one Map; CUDA_ERROR_INVALID_VALUE when there was none such.
  CUresult Unmap(std::uint64_t address, std::uint64_t bytes);
  // The file behind exactly one Map of device memory, by which another process of this node can
  // have it, too; of 0 bytes at 0: of new memory of kTrialBytes, to see whether it can.
  CUresult Export(std::uint64_t address, std::uint64_t bytes, UniqueFd* file);

 private:
  // A part of the shared region's file: mapped and pinned for the device, at the same address.
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
    std::vector<Piece> pieces;  // None: the file's.
    MemoryAccount::Taken taken;
  };
  // New memory there. It is the driver's again after a failure.
  CUresult Back(Piece& piece) const;
  CUresult BackAll(std::vector<Piece>& pieces) const;
  CUresult GiveBack(Piece& piece) const;

  const Driver& driver_;
  const Device& device_;
  SwapCopies* copies_ = nullptr;
  std::uint64_t piece_bytes_ = ~std::uint64_t{0};
  mutable Mutex mutex_;
  std::map<std::uint64_t, Mapped> mapped_ CUSPAN_GUARDED_BY(mutex_);  // By address.
};

}  // namespace cuspan::proxy

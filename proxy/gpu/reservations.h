// Memory managed by the program itself (cuMemAddressReserve, cuMemCreate, cuMemMap), outside the
// window: reserved addresses, allocations by the client's numbers, and their mappings.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "common/mutex.h"
#include "proxy/gpu/device.h"
#include "proxy/gpu/swap_copies.h"

namespace cuspan::proxy {

// Returns the driver's results; CUDA_ERROR_INVALID_VALUE for unknown numbers and addresses. The
// destructor releases everything. Threads: one at a time; Export and Contains: any.
class Reservations {
 public:
  Reservations(const Driver& driver, const Device& device) : driver_(driver), device_(device) {}
  Reservations(const Reservations&) = delete;
  ~Reservations();

  // See Mappings. Imported memory is not swapped. Between SwapOut and SwapIn, no other calls are
  // allowed.
  void MaySwap(SwapCopies& copies) { copies_ = &copies; }
  CUresult SwapOut(std::uint64_t bytes);
  CUresult SwapIn();
  std::uint64_t swapped_bytes() const;

  // Reserves addresses of the plan. CUDA_ERROR_OUT_OF_MEMORY if they are in use. The driver's
  // reservation is kept until the end, for reuse.
  CUresult Reserve(std::uint64_t address, std::uint64_t bytes);
  // Undoes exactly one Reserve, after all its memory was unmapped.
  CUresult Free(std::uint64_t address);

  CUresult Make(std::uint64_t allocation, std::uint64_t bytes);
  // Imports memory exported by another proxy.
  CUresult Import(std::uint64_t allocation, const UniqueFd& file);
  // Returns a file for importing the memory in a proxy of this node.
  CUresult Export(std::uint64_t allocation, UniqueFd* file) const;
  // Frees the number. The memory is released when it is no longer mapped.
  CUresult End(std::uint64_t allocation);

  CUresult Map(std::uint64_t address, std::uint64_t bytes, std::uint64_t allocation);
  // Undoes exactly one Map.
  CUresult Unmap(std::uint64_t address, std::uint64_t bytes);
  // Sets this device's access to all mappings in the range.
  CUresult SetAccess(std::uint64_t address, std::uint64_t bytes, std::uint32_t flags);

  // True if the range is inside one reservation.
  bool Contains(std::uint64_t address, std::uint64_t bytes) const;

 private:
  CUresult AcquireBlock(std::uint64_t block);

  const Driver& driver_;
  const Device& device_;
  // Held during driver calls on memory another thread could release.
  mutable Mutex mutex_;
  std::set<std::uint64_t> blocks_;  // Addresses, kReservationBlock bytes each.
  std::map<std::uint64_t, std::uint64_t> reserved_ CUSPAN_GUARDED_BY(mutex_);  // Address, bytes.
  // Exists as long as it has a number or a mapping.
  struct Allocation {
    std::uint64_t bytes = 0;
    CUmemGenericAllocationHandle memory = 0;
    bool ended = false;  // Its number was freed and `memory` released.
    bool out = false;    // Swapped out; `memory` is released.
    std::uint64_t saved_from = 0;
    // Address for saving it, if it has no readable mapping; 0 unless swapped out.
    CUdeviceptr scratch = 0;
    bool imported = false;
    MemoryAccount::Taken taken;  // Null for imported memory.
  };
  struct Mapped {
    std::uint64_t bytes = 0;
    std::shared_ptr<Allocation> allocation;
    std::uint32_t access = 0;  // Last set access; 0: never set.
  };
  struct Going {
    std::shared_ptr<Allocation> allocation;
    std::uint64_t address;  // Readable address; 0: none.
  };
  // Allocations to swap out: at least `bytes`, or all.
  std::vector<Going> WhatMayGo(std::uint64_t bytes) const;
  CUresult MapScratch(const Allocation& allocation);
  void FreeScratch(Allocation& allocation);
  // Creates new memory for a swapped allocation, and restores its mappings.
  CUresult Back(Allocation& allocation);
  CUresult Give(std::uint64_t address, std::uint64_t bytes, std::uint32_t flags);
  void UnmapAll(const Allocation& allocation);

  std::map<std::uint64_t, std::shared_ptr<Allocation>> allocations_
      CUSPAN_GUARDED_BY(mutex_);            // Key: number.
  std::map<std::uint64_t, Mapped> mapped_;  // Key: address.
  std::vector<std::shared_ptr<Allocation>> out_;
  SwapCopies* copies_ = nullptr;
};

}  // namespace cuspan::proxy

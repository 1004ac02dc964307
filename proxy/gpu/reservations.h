// Memory that the program manages by itself (cuMemAddressReserve, cuMemCreate, cuMemMap), beside
// the window: addresses, allocations by the client's numbers, and which of them is mapped where.
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

// Results are the driver's; CUDA_ERROR_INVALID_VALUE for what is not there. Threads: one at a time;
// Export and Contains: any. What is there at the end is given back.
class Reservations {
 public:
  Reservations(const Driver& driver, const Device& device) : driver_(driver), device_(device) {}
  Reservations(const Reservations&) = delete;
  ~Reservations();

  // As Mappings. What was imported stays where it is. Until SwapIn nothing else may be called.
  void MaySwap(SwapCopies& copies) { copies_ = &copies; }
  CUresult SwapOut(std::uint64_t bytes);
  CUresult SwapIn();
  std::uint64_t swapped_bytes() const;

  // Addresses of the plan for reservations. CUDA_ERROR_OUT_OF_MEMORY when they are taken. What the
  // driver has reserved for them stays until the end, for others.
  CUresult Reserve(std::uint64_t address, std::uint64_t bytes);
  // Undoes exactly one Reserve, where nothing is mapped any more.
  CUresult Free(std::uint64_t address);

  CUresult Make(std::uint64_t allocation, std::uint64_t bytes);
  // What another proxy has exported.
  CUresult Import(std::uint64_t allocation, const UniqueFd& file);
  // A file by which a proxy of this node can have it.
  CUresult Export(std::uint64_t allocation, UniqueFd* file) const;
  // The number is free again; the memory goes when it is mapped nowhere.
  CUresult End(std::uint64_t allocation);

  CUresult Map(std::uint64_t address, std::uint64_t bytes, std::uint64_t allocation);
  // Undoes exactly one Map.
  CUresult Unmap(std::uint64_t address, std::uint64_t bytes);
  // Of this device, to all that is mapped in the range.
  CUresult SetAccess(std::uint64_t address, std::uint64_t bytes, std::uint32_t flags);

  // Whether all of the range lies in one reservation.
  bool Contains(std::uint64_t address, std::uint64_t bytes) const;

 private:
  CUresult TakeBlock(std::uint64_t block);

  const Driver& driver_;
  const Device& device_;
  mutable Mutex mutex_;             // Held while the driver is asked about what could go meanwhile.
  std::set<std::uint64_t> blocks_;  // Of addresses, each of kReservationBlock.
  std::map<std::uint64_t, std::uint64_t> reserved_ CUSPAN_GUARDED_BY(mutex_);  // Address, bytes.
  // The memory stays as long as it has a number, or is mapped somewhere.
  struct Allocation {
    std::uint64_t bytes = 0;
    CUmemGenericAllocationHandle memory = 0;
    bool ended = false;  // It has no number any more, and `memory` is the driver's.
    bool out = false;    // It is swapped out: so is it then.
    std::uint64_t saved_from = 0;
    CUdeviceptr scratch = 0;  // While it is out, where it is mapped nowhere to be read.
    bool imported = false;
    MemoryAccount::Taken taken;  // Not of what is another's.
  };
  struct Mapped {
    std::uint64_t bytes = 0;
    std::shared_ptr<Allocation> allocation;
    std::uint32_t access = 0;  // As it was set last; 0: not yet.
  };
  struct Going {
    std::shared_ptr<Allocation> allocation;
    std::uint64_t address;  // Where it can be read; 0: nowhere.
  };
  // Of those that are there so much or more, or all.
  std::vector<Going> WhatMayGo(std::uint64_t bytes) const;
  CUresult MapScratch(const Allocation& allocation);
  void FreeScratch(Allocation& allocation);
  // New memory for one that is out, where it was mapped.
  CUresult Back(Allocation& allocation);
  CUresult Give(std::uint64_t address, std::uint64_t bytes, std::uint32_t flags);
  void UnmapAll(const Allocation& allocation);

  std::map<std::uint64_t, std::shared_ptr<Allocation>> allocations_
      CUSPAN_GUARDED_BY(mutex_);            // By number.
  std::map<std::uint64_t, Mapped> mapped_;  // By address.
  std::vector<std::shared_ptr<Allocation>> out_;
  SwapCopies* copies_ = nullptr;
};

}  // namespace cuspan::proxy

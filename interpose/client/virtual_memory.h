// Memory that the program manages by itself: addresses that it reserves, allocations, and what of
// them is mapped where (cuMemAddressReserve, cuMemCreate, cuMemMap, cuMemSetAccess).
//
// All of it belongs to devices: each context of a device has what is mapped for that device. The
// bytes are in the proxies of contexts, and live as long as one that has them; with CUDA they do so
// without any.
//
// Addresses are given out here, from a part of the plan that is for all devices
// (protocol/api/address_plan.h). A device has a reservation from the first mapping there that it
// takes part in. What fails for other reasons than a lack of memory is known here, so most ops are
// posted: also AllocationMake, as long as it is certain that the device has room.
#pragma once

#include <cuda.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/mutex.h"
#include "common/unique_fd.h"
#include "interpose/client/base/context.h"
#include "interpose/client/devices.h"
#include "interpose/client/peer_memory.h"

namespace cuspan {

// What is told of an allocation.
struct AllocationFacts {
  int device;
  std::uint64_t bytes;
  std::uint32_t handle_types;  // By which it may be exported: CUmemAllocationHandleType.
};
// By what another process can have it.
struct ExportedAllocation {
  AllocationFacts facts;
  std::string exchange;  // Where its proxy answers, and
  std::uint64_t number;  // which it is there.
};

// Any thread. Results are the driver's. All sizes and addresses of allocations and mappings are
// multiples of kDriverGranularity, or CUDA_ERROR_INVALID_VALUE.
class VirtualMemory final : public ContextTable {
 public:
  VirtualMemory(Devices* devices, PeerMemory* peers) : devices_(*devices), peers_(*peers) {}
  VirtualMemory(const VirtualMemory&) = delete;

  // `bytes` is a multiple of the page size; `alignment` 0 or a power of two. At `hint` if that is
  // free. CUDA_ERROR_OUT_OF_MEMORY when there are no such addresses.
  CUresult Reserve(std::uint64_t bytes, std::uint64_t alignment, std::uint64_t hint,
                   std::uint64_t* address);
  // All of a reservation in which nothing is mapped.
  CUresult Free(std::uint64_t address, std::uint64_t bytes);

  // CUDA_ERROR_OUT_OF_MEMORY when the device has no room.
  CUresult Create(const AllocationFacts& facts, std::uint64_t* handle);
  // An allocation of another process, or this one, as the device of `facts` can have it.
  // CUDA_ERROR_MAP_FAILED when it can not.
  CUresult Import(const ExportedAllocation& exported, std::uint64_t* handle);
  // CUDA_ERROR_NOT_SUPPORTED where proxies do not reach each other.
  CUresult Export(std::uint64_t handle, ExportedAllocation* exported);
  // It was exported by a descriptor, the other end of the connection `end`: the memory lives while
  // any process has that open.
  CUresult KeepFor(std::uint64_t handle, UniqueFd end);
  // The handle ends with the last of those who have it, the memory with the last mapping and the
  // last descriptor, too.
  CUresult Release(std::uint64_t handle);
  // Gives back what only descriptors have kept, and those are closed; nobody tells of that.
  void EndClosed();
  // The handle of what is mapped at an address, for one more to release.
  CUresult Retain(std::uint64_t address, std::uint64_t* handle);
  std::optional<AllocationFacts> Find(std::uint64_t handle);
  // Bytes of all allocations on the device that this process has.
  std::uint64_t BytesOn(int device);

  // All of the allocation, at reserved addresses where nothing is mapped.
  CUresult Map(std::uint64_t address, std::uint64_t bytes, std::uint64_t handle);
  // Whole mappings, side by side. Waits for the devices that have them.
  CUresult Unmap(std::uint64_t address, std::uint64_t bytes);
  // What a device may do with whole mappings, side by side. CUDA_ERROR_NOT_SUPPORTED where it can
  // not have another one's memory.
  CUresult SetAccess(std::uint64_t address, std::uint64_t bytes, int device,
                     CUmemAccess_flags flags);
  CUresult GetAccess(std::uint64_t address, int device, CUmemAccess_flags* flags);
  // What is mapped at an address, and where the mapping begins.
  std::optional<AllocationFacts> At(std::uint64_t address, std::uint64_t* base = nullptr);
  // The reservation that holds it.
  std::optional<BlockAllocator::Range> Reservation(std::uint64_t address);

  // It has what is mapped for its device.
  void Began(ContextConnection& connection) override;
  // What no other context has is gone; handles, mappings and reservations stay.
  void Forget(const ContextConnection& ended) override;

 private:
  // Those of connections, ContextConnection::number().
  using ConnectionNumbers = std::set<std::uint64_t>;
  struct Allocation {
    std::uint64_t number;
    AllocationFacts facts;
    int references = 1;             // Of the program.
    int mappings = 0;               // Places where it is mapped.
    ConnectionNumbers known_at;     // Who has it under its number.
    std::vector<UniqueFd> exports;  // The ends of connections whose others are descriptors of it.
  };
  struct Mapped {
    std::uint64_t bytes;
    std::shared_ptr<Allocation> allocation;
    ConnectionNumbers known_at;
    std::map<int, CUmemAccess_flags> access;  // By device.
  };
  using Mappings = std::map<std::uint64_t, Mapped>;
  struct Reserved {
    std::uint64_t bytes;
    ConnectionNumbers known_at;
  };
  using Reservations = std::map<std::uint64_t, Reserved>;
  // Bytes that a device is known to have, so that nobody need wait for it.
  struct Credit {
    std::uint64_t bytes;
    std::uint64_t growth;  // DeviceMemory::growth() then.
    std::chrono::steady_clock::time_point until;
  };

  std::optional<std::uint64_t> Place(std::uint64_t bytes, std::uint64_t alignment,
                                     std::uint64_t hint) const CUSPAN_REQUIRES(mutex_);
  Reservations::iterator FindReserved(std::uint64_t address, std::uint64_t bytes)
      CUSPAN_REQUIRES(mutex_);
  Mappings::iterator FindMapped(std::uint64_t address) CUSPAN_REQUIRES(mutex_);
  // *first and *last: the mappings that make up the range exactly; false if there are none such.
  bool FindWhole(std::uint64_t address, std::uint64_t bytes, Mappings::iterator* first,
                 Mappings::iterator* last) CUSPAN_REQUIRES(mutex_);
  std::shared_ptr<Allocation> FindAllocation(std::uint64_t handle) CUSPAN_REQUIRES(mutex_);
  CUresult SetAccessAt(ContextConnection& connection, Mappings::iterator first,
                       Mappings::iterator last, CUmemAccess_flags flags) CUSPAN_REQUIRES(mutex_);
  // One of those who have it, a failed one if there is no other; null where nobody does any more.
  std::shared_ptr<ContextConnection> HolderOf(const Allocation& allocation) const;
  // The life of that number; null when it has ended.
  std::shared_ptr<ContextConnection> ConnectionOf(std::uint64_t number) const;

  std::uint64_t Add(const AllocationFacts& facts, const ContextConnection& connection,
                    std::uint64_t number) CUSPAN_REQUIRES(mutex_);
  bool TakeCredit(const ContextConnection& connection, std::uint64_t bytes) CUSPAN_REQUIRES(mutex_);
  CUresult TryMake(ContextConnection& connection, const AllocationTry& op);
  // False when a descriptor alone keeps it.
  bool EndIfUnused(Allocation& allocation) CUSPAN_REQUIRES(mutex_);
  // A mapping at the device, too, without access.
  CUresult MapAt(ContextConnection& connection, Mappings::iterator mapped) CUSPAN_REQUIRES(mutex_);
  CUresult ImportAt(ContextConnection& connection, Allocation& allocation) CUSPAN_REQUIRES(mutex_);
  void UnmapEverywhere(Mappings::iterator mapped) CUSPAN_REQUIRES(mutex_);

  // Posts an op of ours, which no work of the device needs.
  template <typename T>
  CUresult Post(ContextConnection& connection, const T& op) CUSPAN_REQUIRES(mutex_);
  // Waits until the device has done all that the program has posted.
  CUresult WaitFor(ContextConnection& connection) CUSPAN_REQUIRES(mutex_);

  Devices& devices_;
  PeerMemory& peers_;
  Mutex
      mutex_;  // Taken before those of devices' memory and of peers; not while a device is opened.
  Reservations reserved_ CUSPAN_GUARDED_BY(mutex_);  // By address.
  Mappings mapped_ CUSPAN_GUARDED_BY(mutex_);        // By address.
  std::map<std::uint64_t, std::shared_ptr<Allocation>> allocations_
      CUSPAN_GUARDED_BY(mutex_);                            // By number.
  std::set<std::uint64_t> kept_ CUSPAN_GUARDED_BY(mutex_);  // Those that descriptors alone keep.
  std::map<std::uint64_t, Credit> credits_ CUSPAN_GUARDED_BY(mutex_);  // By connection.
  // By connection: up to there the device has done all but what was posted here.
  std::map<std::uint64_t, std::uint64_t> quiet_ CUSPAN_GUARDED_BY(mutex_);
};

}  // namespace cuspan

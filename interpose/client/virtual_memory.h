// Memory managed by the program itself: reserved addresses, allocations, and their mappings
// (cuMemAddressReserve, cuMemCreate, cuMemMap, cuMemSetAccess).
//
// Mappings belong to devices: each context of a device has everything mapped for this device. The
// bytes are in the proxies of contexts, and live as long as one of these contexts. With CUDA they
// live without a context.
//
// Addresses are allocated here, from a part of the address plan for all devices
// (protocol/api/address_plan.h). A device reserves a range before its first mapping in it. All
// failures except a lack of memory are detected here, and most ops are posted. AllocationMake is
// also posted as long as the device certainly has room.
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

// Properties of an allocation.
struct AllocationFacts {
  int device;
  std::uint64_t bytes;
  std::uint32_t handle_types;  // Exportable as: CUmemAllocationHandleType.
};
// Reference to an allocation for another process.
struct ExportedAllocation {
  AllocationFacts facts;
  std::string exchange;  // Address of its proxy's service,
  std::uint64_t number;  // and its number there.
};

// Threads: any. Results are the driver's. Sizes and addresses of allocations and mappings must be
// multiples of kDriverGranularity; otherwise CUDA_ERROR_INVALID_VALUE. Lock order: mutex_ before
// the mutexes of devices' memory and of peers; it is not held while a device is opened.
class VirtualMemory final : public ContextTable {
 public:
  VirtualMemory(Devices* devices, PeerMemory* peers) : devices_(*devices), peers_(*peers) {}
  VirtualMemory(const VirtualMemory&) = delete;

  // Reserves addresses, at `hint` if these are free. `bytes`: multiple of the page size;
  // `alignment`: 0 or a power of two. CUDA_ERROR_OUT_OF_MEMORY if no range is free.
  CUresult Reserve(std::uint64_t bytes, std::uint64_t alignment, std::uint64_t hint,
                   std::uint64_t* address);
  // Frees an entire reservation without mappings.
  CUresult Free(std::uint64_t address, std::uint64_t bytes);

  // CUDA_ERROR_OUT_OF_MEMORY if the device has no room.
  CUresult Create(const AllocationFacts& facts, std::uint64_t* handle);
  // Imports an allocation of another process, or of this one, to the device of `facts`.
  // CUDA_ERROR_MAP_FAILED if the device cannot have it.
  CUresult Import(const ExportedAllocation& exported, std::uint64_t* handle);
  // CUDA_ERROR_NOT_SUPPORTED if proxies cannot reach each other.
  CUresult Export(std::uint64_t handle, ExportedAllocation* exported);
  // Notes an export by a descriptor, the other end of the connection `end`: the memory lives while
  // any process has the descriptor open.
  CUresult KeepFor(std::uint64_t handle, UniqueFd end);
  // Drops a reference; the handle ends with the last. The memory lives until the last mapping and
  // the last descriptor are gone, too.
  CUresult Release(std::uint64_t handle);
  // Frees memory kept by descriptors only, if these are closed; closing causes no notification.
  void EndClosed();
  // Returns the handle mapped at an address, with one more reference.
  CUresult Retain(std::uint64_t address, std::uint64_t* handle);
  std::optional<AllocationFacts> Find(std::uint64_t handle);
  // Bytes of this process's allocations on the device.
  std::uint64_t BytesOn(int device);

  // Maps an entire allocation at reserved addresses without mappings.
  CUresult Map(std::uint64_t address, std::uint64_t bytes, std::uint64_t handle);
  // Unmaps entire adjacent mappings. Waits for the devices using them.
  CUresult Unmap(std::uint64_t address, std::uint64_t bytes);
  // Sets a device's access to entire adjacent mappings. CUDA_ERROR_NOT_SUPPORTED if it cannot
  // access another device's memory.
  CUresult SetAccess(std::uint64_t address, std::uint64_t bytes, int device,
                     CUmemAccess_flags flags);
  CUresult GetAccess(std::uint64_t address, int device, CUmemAccess_flags* flags);
  // Returns the allocation mapped at an address, and the start of the mapping.
  std::optional<AllocationFacts> At(std::uint64_t address, std::uint64_t* base = nullptr);
  // Returns the reservation containing the address.
  std::optional<BlockAllocator::Range> Reservation(std::uint64_t address);

  // Maps everything the program has mapped for its device.
  void Began(ContextConnection& connection) override;
  // Memory held by no other context is lost; handles, mappings and reservations stay.
  void Forget(const ContextConnection& ended) override;

 private:
  // Values of ContextConnection::number().
  using ConnectionNumbers = std::set<std::uint64_t>;
  struct Allocation {
    std::uint64_t number;
    AllocationFacts facts;
    int references = 1;             // Held by the program.
    int mappings = 0;               // Number of mappings.
    ConnectionNumbers known_at;     // ContextConnections with it under this number.
    std::vector<UniqueFd> exports;  // Own ends of connections; the other ends are descriptors.
  };
  struct Mapped {
    std::uint64_t bytes;
    std::shared_ptr<Allocation> allocation;
    ConnectionNumbers known_at;
    std::map<int, CUmemAccess_flags> access;  // Indexed by device.
  };
  using Mappings = std::map<std::uint64_t, Mapped>;
  struct Reserved {
    std::uint64_t bytes;
    ConnectionNumbers known_at;
  };
  using Reservations = std::map<std::uint64_t, Reserved>;
  // Bytes certainly free on a device: allocating them needs no reply.
  struct Credit {
    std::uint64_t bytes;
    std::uint64_t growth;  // DeviceMemory::growth() at its creation.
    std::chrono::steady_clock::time_point until;
  };

  std::optional<std::uint64_t> Place(std::uint64_t bytes, std::uint64_t alignment,
                                     std::uint64_t hint) const CUSPAN_REQUIRES(mutex_);
  Reservations::iterator FindReserved(std::uint64_t address, std::uint64_t bytes)
      CUSPAN_REQUIRES(mutex_);
  Mappings::iterator FindMapped(std::uint64_t address) CUSPAN_REQUIRES(mutex_);
  // *first and *last: mappings forming the range exactly; false if no mappings do.
  bool FindWhole(std::uint64_t address, std::uint64_t bytes, Mappings::iterator* first,
                 Mappings::iterator* last) CUSPAN_REQUIRES(mutex_);
  std::shared_ptr<Allocation> FindAllocation(std::uint64_t handle) CUSPAN_REQUIRES(mutex_);
  CUresult SetAccessAt(ContextConnection& connection, Mappings::iterator first,
                       Mappings::iterator last, CUmemAccess_flags flags) CUSPAN_REQUIRES(mutex_);
  // Returns a ContextConnection with the allocation, preferably a healthy one; null after the last
  // one's end.
  std::shared_ptr<ContextConnection> HolderOf(const Allocation& allocation) const;
  // Returns the ContextConnection with this number; null after its end.
  std::shared_ptr<ContextConnection> ConnectionOf(std::uint64_t number) const;

  std::uint64_t Add(const AllocationFacts& facts, const ContextConnection& connection,
                    std::uint64_t number) CUSPAN_REQUIRES(mutex_);
  bool ConsumeCredit(const ContextConnection& connection, std::uint64_t bytes)
      CUSPAN_REQUIRES(mutex_);
  CUresult TryMake(ContextConnection& connection, const AllocationTry& op);
  // False if descriptors alone keep it.
  bool EndIfUnused(Allocation& allocation) CUSPAN_REQUIRES(mutex_);
  // Maps it at the device, too, without access.
  CUresult MapAt(ContextConnection& connection, Mappings::iterator mapped) CUSPAN_REQUIRES(mutex_);
  CUresult ImportAt(ContextConnection& connection, Allocation& allocation) CUSPAN_REQUIRES(mutex_);
  void UnmapEverywhere(Mappings::iterator mapped) CUSPAN_REQUIRES(mutex_);

  // Posts an internal op, not needed by work of the device.
  template <typename T>
  CUresult Post(ContextConnection& connection, const T& op) CUSPAN_REQUIRES(mutex_);
  // Waits until the device has completed everything posted by the program.
  CUresult WaitFor(ContextConnection& connection) CUSPAN_REQUIRES(mutex_);

  Devices& devices_;
  PeerMemory& peers_;
  Mutex mutex_;
  Reservations reserved_ CUSPAN_GUARDED_BY(mutex_);  // Indexed by address.
  Mappings mapped_ CUSPAN_GUARDED_BY(mutex_);        // Indexed by address.
  std::map<std::uint64_t, std::shared_ptr<Allocation>> allocations_
      CUSPAN_GUARDED_BY(mutex_);                            // Indexed by number.
  std::set<std::uint64_t> kept_ CUSPAN_GUARDED_BY(mutex_);  // Kept by descriptors alone.
  std::map<std::uint64_t, Credit> credits_
      CUSPAN_GUARDED_BY(mutex_);  // Indexed by ContextConnection::number().
  // Indexed by ContextConnection::number(): the device has completed everything up to this
  // sequence, except ops posted here.
  std::map<std::uint64_t, std::uint64_t> quiet_ CUSPAN_GUARDED_BY(mutex_);
};

}  // namespace cuspan

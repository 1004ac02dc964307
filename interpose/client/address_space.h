// What the addresses of the program stand for: memory of a device, pinned or managed memory, or
// what nobody has told us of. Memory is allocated and freed here, but for pinned memory
// (memory/host_memory.h) and pools (pools.h).
#pragma once

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "common/mutex.h"
#include "interpose/client/devices.h"
#include "interpose/client/graph_blocks.h"
#include "interpose/client/ipc_memory.h"
#include "interpose/client/memory/host_memory.h"
#include "interpose/client/memory/memory_advice.h"
#include "interpose/client/peer_memory.h"
#include "interpose/client/pools.h"
#include "interpose/client/stream_target.h"
#include "interpose/client/virtual_memory.h"

namespace cuspan {

// What a pointer points into.
struct PointerKind {
  enum { kUnknownHost, kPinnedHost, kDevice, kManaged } kind;
  int device = -1;               // All but kUnknownHost.
  std::uint64_t range_base = 0;  // The allocation or variable, where devices can use it.
  std::uint64_t range_bytes = 0;
};

// The connections of both sides of a copy; null for host memory.
struct CopyEnds {
  std::shared_ptr<ContextConnection> to;
  std::shared_ptr<ContextConnection> from;
};

// All outlive the address space.
struct AddressSpaceParts {
  ConnectionCommon* common;
  Devices* devices;
  SharedRegion* region;
  HostMemory* host;
  PeerMemory* peers;
  IpcMemory* ipc;
  Pools* pools;
  GraphBlocks* graph_blocks;
  VirtualMemory* mapped;
};

// Any thread, but not the receiver's. Results are the driver's.
class AddressSpace {
 public:
  explicit AddressSpace(AddressSpaceParts parts) : parts_(parts) {}
  AddressSpace(const AddressSpace&) = delete;

  // On the current device. `bytes` > 0.
  CUresult Allocate(std::uint64_t bytes, std::uint64_t* address);
  // cudaMallocManaged, for the current device. `bytes` > 0.
  CUresult AllocateManaged(std::uint64_t bytes, std::uint64_t* address);
  // Whatever it is that starts there. Waits for the device, as cudaFree does, where the program
  // could see the difference: when work under way may write memory that the host reads.
  // CUDA_ERROR_INVALID_VALUE when nothing starts there.
  CUresult Free(std::uint64_t address);
  // The same for an allocation of a device, once the device has done all that was posted before.
  // Does not wait. CUDA_ERROR_NOT_SUPPORTED for managed memory, CUDA_ERROR_INVALID_VALUE for
  // anything else (measured, 580).
  CUresult FreeLater(std::uint64_t address);
  // What the program said about where it will use its managed memory.
  MemoryAdvice& advice() { return advice_; }

  PointerKind Classify(const void* pointer);
  // Whether all of that is one allocation, or mappings of the program side by side, that devices
  // can use.
  bool Holds(const void* pointer, std::uint64_t bytes);
  // Whether `bytes` from there on go beyond the allocation or variable of a device that holds the
  // pointer, or the mappings side by side. Other memory has no known end.
  bool RunsOver(const void* pointer, std::uint64_t bytes);
  // The connection of the device that a pointer points into; null for host memory.
  std::shared_ptr<ContextConnection> ConnectionOf(const void* pointer);
  // Both sides of a copy, as ConnectionOf. Memory of the shared region, and what the program
  // mapped, counts as the other side's where that has it: it needs no help to copy.
  CopyEnds EndsOf(const void* destination, const void* source);
  // The device that copies between two by itself, in the order of `target`: that one's, if it is
  // one of them. Null when neither has the other's memory.
  std::shared_ptr<ContextConnection> CopierOf(const CopyEnds& ends, const void* destination,
                                              const void* source, const StreamTarget& target);
  // Whether a synchronous copy between the two must wait for the device, which may not have come
  // to it yet: the program may look at one of its sides when the call returns, or another process.
  bool SeenByOthers(const void* destination, const void* source) const;

 private:
  CUresult FreeManaged(std::uint64_t address);
  CUresult FreeOnDevice(ContextConnection& connection, std::uint64_t address);
  PointerKind ClassifyShared(const void* pointer);
  PointerKind ClassifyMapped(const void* pointer);
  // use(const std::shared_ptr<ContextConnection>&) → any value, with the device that has this in
  // its own memory, or null; with a lock held.
  template <typename Use>
  auto VisitDeviceOf(std::uint64_t address, Use&& use);

  const AddressSpaceParts parts_;
  MemoryAdvice advice_;
  Mutex managed_mutex_;
  std::unordered_map<std::uint64_t, int> managed_
      CUSPAN_GUARDED_BY(managed_mutex_);  // Managed blocks, each with its device.
};

}  // namespace cuspan

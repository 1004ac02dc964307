// Meaning of the program's addresses: memory of a device, pinned or managed memory, or unknown host
// memory. Memory is allocated and freed here, except pinned memory (memory/host_memory.h) and pools
// (pools.h).
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

// Kind of the memory at a pointer.
struct PointerKind {
  enum { kUnknownHost, kPinnedHost, kDevice, kManaged } kind;
  int device = -1;               // Not for kUnknownHost.
  std::uint64_t range_base = 0;  // Allocation or variable, if usable by devices.
  std::uint64_t range_bytes = 0;
};

// ContextConnections of both sides of a copy; null for host memory.
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

// Threads: any except the receiver thread. Results are the driver's.
class AddressSpace {
 public:
  explicit AddressSpace(AddressSpaceParts parts) : parts_(parts) {}
  AddressSpace(const AddressSpace&) = delete;

  // Allocates on the current device. `bytes` > 0.
  CUresult Allocate(std::uint64_t bytes, std::uint64_t* address);
  // Implements cudaMallocManaged for the current device. `bytes` > 0.
  CUresult AllocateManaged(std::uint64_t bytes, std::uint64_t* address);
  // Frees an allocation of any kind. cudaFree waits for the device. This function waits only if the
  // program can see a difference: if work in flight may write memory read by the host.
  // CUDA_ERROR_INVALID_VALUE if no allocation starts there.
  CUresult Free(std::uint64_t address);
  // Frees an allocation of a device once the device has completed all ops posted before. Does not
  // wait. CUDA_ERROR_NOT_SUPPORTED for managed memory, CUDA_ERROR_INVALID_VALUE for other addresses
  // (measured, 580).
  CUresult FreeLater(std::uint64_t address);
  // The program's advice about its managed memory.
  MemoryAdvice& advice() { return advice_; }

  PointerKind Classify(const void* pointer);
  // True if the range is in one allocation, or in adjacent mappings of the program, usable by
  // devices.
  bool Holds(const void* pointer, std::uint64_t bytes);
  // True if `bytes` from `pointer` exceed the device's allocation or variable at this address, or
  // the adjacent mappings. Other memory has no known end.
  bool RunsOver(const void* pointer, std::uint64_t bytes);
  // Returns the ContextConnection of the device owning the address; null for host memory.
  std::shared_ptr<ContextConnection> ConnectionOf(const void* pointer);
  // True if kernels use registered memory. Threads: any.
  bool any_registered() const { return parts_.region->registered().any(); }
  RegisteredMemory& registered() const { return parts_.region->registered(); }
  // Returns the address for a copy, by the device of `other`, of [memory, memory + bytes): memory
  // registered by the program and used by kernels has another one on devices. Copies by it are in
  // order with kernels.
  void* ForCopies(const void* memory, std::uint64_t bytes,
                  const std::shared_ptr<ContextConnection>& other) const;
  // Returns both sides of a copy, found by ConnectionOf. If the device of one side can access the
  // other side as shared or mapped memory, both sides become this device: it copies alone.
  CopyEnds EndsOf(const void* destination, const void* source);
  // Returns the device able to copy between the two alone, in the order of `target`; preferably the
  // device of `target`. Null if neither can access the other's memory.
  std::shared_ptr<ContextConnection> CopierOf(const CopyEnds& ends, const void* destination,
                                              const void* source, const StreamTarget& target);
  // True if a synchronous copy must wait for the device to execute it: the program or another
  // process may read one of its sides after the return.
  bool SeenByOthers(const void* destination, const void* source) const;

 private:
  CUresult FreeManaged(std::uint64_t address);
  CUresult FreeOnDevice(ContextConnection& connection, std::uint64_t address);
  PointerKind ClassifyShared(const void* pointer);
  PointerKind ClassifyMapped(const void* pointer);
  // Returns use(const std::shared_ptr<ContextConnection>&) for the device with this address in its
  // own memory, or for null. Called with a lock held.
  template <typename Use>
  auto VisitDeviceOf(std::uint64_t address, Use&& use);

  const AddressSpaceParts parts_;
  MemoryAdvice advice_;
  Mutex managed_mutex_;
  std::unordered_map<std::uint64_t, int> managed_
      CUSPAN_GUARDED_BY(managed_mutex_);  // Device of each managed block.
};

}  // namespace cuspan

// Copies of runs of bytes and of boxes: between the program's memory and a device, on one device,
// and between two devices.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <memory>

#include "interpose/client/address_space.h"
#include "interpose/client/arrays.h"
#include "interpose/client/host_calls.h"
#include "interpose/client/memory/addresses.h"
#include "interpose/client/peer_copies.h"
#include "interpose/client/streams.h"

namespace cuspan {

// Locations of the two sides given by the program: host, device, or determined by the pointers.
enum class CopySides { kDefault, kHostToHost, kHostToDevice, kDeviceToHost, kDeviceToDevice };

// A copy of one run of bytes.
struct CopyRequest {
  void* destination = nullptr;
  const void* source = nullptr;
  std::uint64_t bytes = 0;
  int destination_device = -1;  // Both ≥ 0 for a peer copy; -1: determined by the pointers.
  int source_device = -1;
  CopySides sides = CopySides::kDefault;
  bool asynchronous = false;
};

// One side of a copy of a box: in an array, or in memory with its first row at `pointer`.
struct BoxSide {
  std::shared_ptr<const Array> array;  // Null: memory.
  const void* pointer = nullptr;
  std::uint64_t pitch = 0;            // Memory: bytes from one row to the next,
  std::uint64_t plane_rows = 0;       // and rows from one plane to the next.
  std::uint64_t x = 0, y = 0, z = 0;  // Array: bytes, rows, planes.
};
struct BoxCopy {
  BoxSide destination;
  BoxSide source;
  BoxExtent extent;
  CopySides sides = CopySides::kDefault;
  bool asynchronous = false;
  int destination_device = -1;  // See CopyRequest.
  int source_device = -1;
};

// Converts a copy within one device to a node of a graph of this device.
GraphCopy AsNode(const BoxCopy& copy);
// True if both sides are entirely in memory or arrays of this device.
bool BothOn(const ContextConnection& connection, const BoxCopy& copy);

// All outlive the copies.
struct CopiesParts {
  AddressSpace* addresses;
  HostMemory* host;
  ManagedVariables* variables;
  Events* events;
  Streams* streams;
  HostCalls* host_calls;
  PeerCopies* peer_copies;
};

// Threads: any except the receiver thread. Results are the driver's. Extents are checked against
// the allocations.
class Copies {
 public:
  explicit Copies(CopiesParts parts) : parts_(parts) {}
  Copies(const Copies&) = delete;

  // On return, the program sees the contents of memory guaranteed by CUDA: those of a synchronous
  // copy, and of earlier work in its stream.
  CUresult Copy(CopyRequest request, const StreamTarget& target);
  CUresult Copy(const BoxCopy& copy, const StreamTarget& target);

 private:
  // *waited: the stream has reached the end of the copy, or the call has waited for its bytes.
  CUresult PostRun(const CopyRequest& request, const StreamTarget& target, bool* waited);
  CUresult PostBox(const BoxCopy& copy, std::uint64_t bytes, const StreamTarget& target,
                   bool* waited);
  CUresult CopyHostToDevice(const CopyRequest& request, const StreamTarget& there);
  CUresult CopyDeviceToHost(const CopyRequest& request, const StreamTarget& there);
  // Posts `op`, a copy executed by `copier` alone, between the devices of `ends`. The synchronous
  // form starts after all earlier work of both, and waits.
  template <typename Op>
  CUresult CopyByItself(const std::shared_ptr<ContextConnection>& copier, const CopyEnds& ends,
                        bool asynchronous, const StreamTarget& target, Op& op) {
    if (!asynchronous && ends.to != ends.from) {
      if (const CUresult result = WaitForBoth(ends); result != CUDA_SUCCESS) return result;
    }
    const CUresult result = parts_.events->OnDevice(target, copier, [&](const StreamTarget& there) {
      op.stream = there.stream;
      return there.connection->Post(op);
    });
    if (result != CUDA_SUCCESS || asynchronous || ends.to == ends.from) return result;
    return parts_.streams->Synchronize(target);
  }
  CopyEnds EndsOf(const BoxCopy& copy);
  static CUresult WaitForBoth(const CopyEnds& ends);
  // Copies between two devices without access to each other's memory, in the order of `target`,
  // perhaps a third device's.
  CUresult CopyPeer(const PeerCopies::Copy& copy, bool asynchronous, const StreamTarget& target);
  // Called before and after a copy between the two, for CUDA's guarantees about shared memory.
  CUresult Begin(const void* destination, const void* source, bool* asynchronous,
                 const StreamTarget& target);
  CUresult End(const void* destination, const void* source, bool waited,
               const StreamTarget& target);
  // Replaces memory by the address where the copy is in order with kernels.
  // Returns the executing devices, if any memory is registered.
  CopyEnds UseOrderedAddresses(CopyRequest& request);
  CopyEnds UseOrderedAddresses(BoxCopy& copy);
  // Returns post() → CUresult, a copy between these bytes, executed by `ends`. Gives registered
  // memory the contents for it, and its contents to the program later.
  template <typename Post>
  CUresult WithRegistered(const CopyEnds& ends, const void* destination, std::uint64_t written,
                          const void* source, std::uint64_t read, Post&& post);
  // True if earlier operations may still write to page-locked memory before a copy posted now reads
  // it.
  bool HostWritesPending(ContextConnection& connection) const;

  const CopiesParts parts_;
};

template <typename Post>
CUresult Copies::WithRegistered(const CopyEnds& ends, const void* destination,
                                std::uint64_t written, const void* source, std::uint64_t read,
                                Post&& post) {
  if (!parts_.addresses->any_registered()) [[likely]]
    return post();
  RegisteredMemory& registered = parts_.addresses->registered();
  const bool writes = registered.BeforeCopy(AddressOf(destination), written);
  const bool reads = registered.BeforeCopy(AddressOf(source), read);
  const CUresult result = post();
  for (const auto& worker : {ends.to, ends.from})
    if (worker != nullptr && (writes || reads)) worker->Worked(worker->LastPosted());
  if (writes) registered.AfterCopy(AddressOf(destination), written, true);
  if (reads) registered.AfterCopy(AddressOf(source), read, false);
  return result;
}

}  // namespace cuspan

// Copies of runs of bytes and of boxes, wherever their sides lie: between the program's memory and
// a device's, on one device, and between two.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <memory>

#include "interpose/client/address_space.h"
#include "interpose/client/arrays.h"
#include "interpose/client/host_calls.h"
#include "interpose/client/peer_copies.h"
#include "interpose/client/streams.h"

namespace cuspan {

// What the program says of the two sides of a copy: host, device, or whatever the pointers say.
enum class CopySides { kDefault, kHostToHost, kHostToDevice, kDeviceToHost, kDeviceToDevice };

// A copy of one run.
struct CopyRequest {
  void* destination = nullptr;
  const void* source = nullptr;
  std::uint64_t bytes = 0;
  int destination_device = -1;  // Both ≥ 0 for a peer copy; -1: what the pointers say.
  int source_device = -1;
  CopySides sides = CopySides::kDefault;
  bool asynchronous = false;
};

// One side of a copy of a box: in an array, or in memory, whose first row starts at `pointer`.
struct BoxSide {
  std::shared_ptr<const Array> array;  // Null: memory.
  const void* pointer = nullptr;
  std::uint64_t pitch = 0;            // Of memory: bytes from one row to the next,
  std::uint64_t plane_rows = 0;       // and rows from one plane to the next.
  std::uint64_t x = 0, y = 0, z = 0;  // In an array: bytes, rows, planes.
};
struct BoxCopy {
  BoxSide destination;
  BoxSide source;
  BoxExtent extent;
  CopySides sides = CopySides::kDefault;
  bool asynchronous = false;
  int destination_device = -1;  // As in CopyRequest.
  int source_device = -1;
};

// Such a copy, all of which lies on one device, as a node of a graph of the device.
GraphCopy AsNode(const BoxCopy& copy);
// Whether both sides lie, as a whole, in the own memory or arrays of that device.
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

// Any thread, but not the receiver's. Results are the driver's. Extents are checked against what is
// allocated.
class Copies {
 public:
  explicit Copies(CopiesParts parts) : parts_(parts) {}
  Copies(const Copies&) = delete;

  // When the call returns, the program finds in memory what CUDA promises: a synchronous copy's
  // bytes, and what came before it in its stream.
  CUresult Copy(CopyRequest request, const StreamTarget& target);
  CUresult Copy(const BoxCopy& copy, const StreamTarget& target);

 private:
  // *waited: the stream had come to the end of the copy, or the call has waited for its bytes.
  CUresult PostRun(const CopyRequest& request, const StreamTarget& target, bool* waited);
  CUresult PostBox(const BoxCopy& copy, std::uint64_t bytes, const StreamTarget& target,
                   bool* waited);
  CUresult CopyHostToDevice(const CopyRequest& request, const StreamTarget& there);
  CUresult CopyDeviceToHost(const CopyRequest& request, const StreamTarget& there);
  // Posts `op`, a copy that `copier` does by itself, between the devices of `ends`. The
  // synchronous form starts after all earlier work of both, and waits.
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
  static CUresult WaitForBoth(const CopyEnds& ends);
  // Between two devices that do not have each other's memory, in the order of `target`, which may
  // be a third one's.
  CUresult CopyPeer(const PeerCopies::Copy& copy, bool asynchronous, const StreamTarget& target);
  // Around a copy between the two: what CUDA promises of shared memory.
  CUresult Begin(const void* destination, const void* source, bool* asynchronous,
                 const StreamTarget& target);
  CUresult End(const void* destination, const void* source, bool waited,
               const StreamTarget& target);
  // Something that was begun earlier may still write to page-locked memory before a copy that is
  // posted now reads it.
  bool HostWritesPending(ContextConnection& connection) const;

  const CopiesParts parts_;
};

}  // namespace cuspan

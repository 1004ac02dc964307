// Copies of runs of bytes.
#include <cstring>

#include "interpose/client/copies.h"
#include "interpose/client/copy_bytes.h"
#include "interpose/client/memory/addresses.h"

namespace cuspan {
namespace {

// True if the program names a device for a side, and the pointer belongs to another.
bool IsElsewhere(const std::shared_ptr<ContextConnection>& connection, int device) {
  return device >= 0 && (connection == nullptr || connection->device() != device);
}

}  // namespace

CUresult Copies::Begin(const void* destination, const void* source, bool* asynchronous,
                       const StreamTarget& target) {
  if (!*asynchronous) target.connection->coherence().BeforeWait(false);
  // A managed variable has one memory by name and one by address. They are equal while the device
  // is idle.
  if (!parts_.variables->Contains(AddressOf(destination)) &&
      !parts_.variables->Contains(AddressOf(source)))
    return CUDA_SUCCESS;
  *asynchronous = false;
  return parts_.streams->Synchronize(target);
}

CUresult Copies::End(const void* destination, const void* source, bool waited,
                     const StreamTarget& target) {
  if (!waited && parts_.addresses->SeenByOthers(destination, source))
    return parts_.streams->Synchronize(target);
  // The program may access shared memory after the return, and earlier work of the stream is
  // complete, too.
  return target.connection->Synchronized(false);
}

CUresult Copies::Copy(CopyRequest request, const StreamTarget& target) {
  if (request.bytes == 0) return CUDA_SUCCESS;
  const CopyEnds ends = UseOrderedAddresses(request);
  CUresult result = Begin(request.destination, request.source, &request.asynchronous, target);
  if (result != CUDA_SUCCESS) return result;
  bool waited = false;
  result = WithRegistered(ends, request.destination, request.bytes, request.source, request.bytes,
                          [&] { return PostRun(request, target, &waited); });
  if (result != CUDA_SUCCESS || request.asynchronous) return result;
  return End(request.destination, request.source, waited, target);
}

CopyEnds Copies::UseOrderedAddresses(CopyRequest& request) {
  AddressSpace& addresses = *parts_.addresses;
  if (!addresses.any_registered()) [[likely]]
    return {};
  const auto to = addresses.ConnectionOf(request.destination);
  const auto from = addresses.ConnectionOf(request.source);
  request.destination = addresses.ForCopies(request.destination, request.bytes, from);
  request.source = addresses.ForCopies(request.source, request.bytes, to);
  return addresses.EndsOf(request.destination, request.source);
}

CUresult Copies::PostRun(const CopyRequest& request, const StreamTarget& target, bool* waited) {
  const CopyEnds ends = parts_.addresses->EndsOf(request.destination, request.source);
  const auto& [to, from] = ends;
  // The driver goes by the pointers. It only refuses pageable memory if the kind says device
  // (measured on an H200 with every pair of kind and pointers).
  const bool to_device =
      request.sides == CopySides::kHostToDevice || request.sides == CopySides::kDeviceToDevice;
  const bool from_device =
      request.sides == CopySides::kDeviceToHost || request.sides == CopySides::kDeviceToDevice;
  if ((to_device && to == nullptr && !parts_.host->Find(request.destination, request.bytes)) ||
      (from_device && from == nullptr && !parts_.host->Find(request.source, request.bytes)))
    return CUDA_ERROR_INVALID_VALUE;
  if (IsElsewhere(to, request.destination_device) || IsElsewhere(from, request.source_device))
    return CUDA_ERROR_INVALID_VALUE;
  if ((to != nullptr && !to->memory().Covers(AddressOf(request.destination), request.bytes)) ||
      (from != nullptr && !from->memory().Covers(AddressOf(request.source), request.bytes)))
    return CUDA_ERROR_INVALID_VALUE;
  if (to != nullptr && from != nullptr) {
    const std::shared_ptr<ContextConnection> copier =
        parts_.addresses->CopierOf(ends, request.destination, request.source, target);
    if (copier == nullptr) {
      PeerCopies::Copy copy{to, from, {}, {}, {request.bytes, 1, 1}};
      copy.to_place.address = AddressOf(request.destination);
      copy.from_place.address = AddressOf(request.source);
      return CopyPeer(copy, request.asynchronous, target);
    }
    CopyOnDevice op;
    op.destination = AddressOf(request.destination);
    op.source = AddressOf(request.source);
    op.bytes = request.bytes;
    const CUresult result = CopyByItself(copier, ends, request.asynchronous, target, op);
    if (result == CUDA_SUCCESS) copier->coherence().Copied(op.destination, op.bytes, op.stream);
    return result;
  }
  if (to != nullptr) {
    return parts_.events->OnDevice(
        target, to, [&](const StreamTarget& there) { return CopyHostToDevice(request, there); });
  }
  *waited = !request.asynchronous;
  if (from != nullptr) {
    return parts_.events->OnDevice(
        target, from, [&](const StreamTarget& there) { return CopyDeviceToHost(request, there); });
  }
  // Host to host: copied once the stream's earlier work is complete.
  const CUresult result = parts_.streams->Synchronize(target);
  if (result == CUDA_SUCCESS) std::memmove(request.destination, request.source, request.bytes);
  return result;
}

CUresult Copies::WaitForBoth(const CopyEnds& ends) {
  for (const auto& connection : {ends.to, ends.from})
    if (const CUresult result = connection->Synchronize(DeviceSynchronize{});
        result != CUDA_SUCCESS)
      return result;
  return CUDA_SUCCESS;
}

CUresult Copies::CopyPeer(const PeerCopies::Copy& copy, bool asynchronous,
                          const StreamTarget& target) {
  if (!asynchronous) {
    // The synchronous form starts after all earlier work of both devices.
    if (const CUresult result = WaitForBoth({copy.to, copy.from}); result != CUDA_SUCCESS)
      return result;
  }
  const auto& ordered = target.connection == copy.from ? copy.from : copy.to;
  const CUresult result = parts_.events->OnDevice(target, ordered, [&](const StreamTarget& there) {
    return parts_.peer_copies->Post(copy, there.connection, there.stream);
  });
  return result != CUDA_SUCCESS || asynchronous ? result : parts_.streams->Synchronize(target);
}

bool Copies::HostWritesPending(ContextConnection& connection) const {
  return connection.common().receiving.load(std::memory_order_acquire) != 0 ||
         parts_.host_calls->pending() || parts_.events->AwaitOthers();
}

CUresult Copies::CopyHostToDevice(const CopyRequest& request, const StreamTarget& there) {
  const auto* source = static_cast<const std::byte*>(request.source);
  const bool pinned = parts_.host->Find(source, request.bytes).has_value();
  // Page-locked memory must be read when the stream reaches the copy, not now.
  const bool stable = !HostWritesPending(*there.connection);
  if (request.bytes <= kMaxInlineBytes && (!pinned || stable)) {
    CopyToDeviceInline op;
    op.stream = there.stream;
    op.destination = AddressOf(request.destination);
    op.data = {source, request.bytes};
    there.connection->channel().statistics().bytes_to_device.fetch_add(request.bytes,
                                                                       std::memory_order_relaxed);
    return there.connection->Post(op);
  }
  CopyToDevice op;
  op.destination = AddressOf(request.destination);
  op.bytes = request.bytes;
  return SendBytes(there, op, source, request.bytes, {}, request.asynchronous && pinned, stable);
}

CUresult Copies::CopyDeviceToHost(const CopyRequest& request, const StreamTarget& there) {
  CopyFromDevice op;
  op.source = AddressOf(request.source);
  op.bytes = request.bytes;
  // CUDA's copies to pageable memory return when the bytes are there.
  const bool later = request.asynchronous && parts_.host->Find(request.destination, request.bytes);
  return ReceiveBytes(there, op, static_cast<std::byte*>(request.destination), request.bytes, {},
                      later);
}

}  // namespace cuspan

// Memory and copies of the session: which device a pointer belongs to, and the
// way that bytes take.
#include <algorithm>
#include <cstring>

#include "interpose/client/session.h"

namespace cuspan {
namespace {

std::uint64_t Address(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

// Whether all of [address, address + bytes) is one allocation or variable of the device.
bool Covers(const DeviceMemory& memory, std::uint64_t address, std::uint64_t bytes) {
  const auto range = memory.Find(address);
  return range && bytes <= range->bytes - (address - range->base);
}

}  // namespace

CUresult Session::Allocate(std::uint64_t bytes, std::uint64_t* address) {
  std::shared_ptr<Link> link;
  if (const CUresult result = CurrentLink(&link); result != CUDA_SUCCESS) return result;
  return link->memory().Allocate(bytes, address);
}

CUresult Session::Free(std::uint64_t address) {
  const std::shared_ptr<Link> link = LinkOf(reinterpret_cast<void*>(address));
  if (link == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto block = link->memory().Find(address);
  if (!block || block->base != address) return CUDA_ERROR_INVALID_VALUE;
  // Nothing on the device may still use the block when it is given out again.
  if (const CUresult result = link->CallAndStore(DeviceSynchronize{}); result != CUDA_SUCCESS) return result;
  const CUresult earlier = link->TakePostedFailure();
  const CUresult result = link->memory().Free(address);
  return result != CUDA_SUCCESS ? result : earlier;
}

std::shared_ptr<Link> Session::LinkOf(const void* pointer) {
  std::shared_lock lock(links_mutex_);
  for (const auto& slot : devices_)
    if (slot->link != nullptr && slot->link->memory().InWindow(Address(pointer))) return slot->link;
  // Variables lie where each driver put them: two devices may use one address,
  // and then the current device is meant.
  std::shared_ptr<Link> found;
  for (const auto& slot : devices_)
    if (slot->link != nullptr && slot->link->memory().Find(Address(pointer)))
      if (found == nullptr || slot->link->device() == ThisThread().current_device) found = slot->link;
  return found;
}

Session::PointerKind Session::Classify(const void* pointer) {
  if (const std::shared_ptr<Link> link = LinkOf(pointer)) {
    PointerKind kind{PointerKind::kDevice, link->device()};
    if (const auto range = link->memory().Find(Address(pointer))) {
      kind.range_base = range->base;
      kind.range_bytes = range->bytes;
    }
    return kind;
  }
  if (const auto host = host_memory_.Find(pointer, 1)) return {PointerKind::kPinnedHost, host->device};
  return {PointerKind::kUnknownHost};
}

CUresult Session::Order(const StreamTarget& first, const StreamTarget& waiting) {
  std::uint64_t event = 0;
  if (const CUresult result = CreateEventOn(first.link, CU_EVENT_DISABLE_TIMING, &event); result != CUDA_SUCCESS)
    return result;
  CUresult result = RecordEvent(event, first);
  if (result == CUDA_SUCCESS) result = WaitEvent(waiting, event);
  const CUresult destroyed = DestroyEvent(event);
  return result != CUDA_SUCCESS ? result : destroyed;
}

template <typename Use>
CUresult Session::OnDevice(const StreamTarget& target, const std::shared_ptr<Link>& link, Use&& op) {
  if (link == target.link) return op(target);
  StreamTarget there{link, 0};
  CUresult result = link->OwnStream(&there.stream);
  if (result == CUDA_SUCCESS) result = Order(target, there);
  if (result == CUDA_SUCCESS) result = op(there);
  if (result == CUDA_SUCCESS) result = Order(there, target);
  return result;
}

CUresult Session::Copy(const CopyRequest& request, const StreamTarget& target) {
  if (request.bytes == 0) return CUDA_SUCCESS;
  std::shared_ptr<Link> to = LinkOf(request.destination);
  std::shared_ptr<Link> from = LinkOf(request.source);
  using Sides = CopyRequest::Sides;
  const Sides actual = to != nullptr ? (from != nullptr ? Sides::kDeviceToDevice : Sides::kHostToDevice)
                                     : (from != nullptr ? Sides::kDeviceToHost : Sides::kHostToHost);
  // The driver goes by the pointers; it refuses only pageable memory where the
  // kind says device (measured on an H200 with every pair of kind and pointers).
  const bool to_device = request.sides == Sides::kHostToDevice || request.sides == Sides::kDeviceToDevice;
  const bool from_device = request.sides == Sides::kDeviceToHost || request.sides == Sides::kDeviceToDevice;
  if ((to_device && to == nullptr && !host_memory_.Find(request.destination, request.bytes)) ||
      (from_device && from == nullptr && !host_memory_.Find(request.source, request.bytes)))
    return CUDA_ERROR_INVALID_VALUE;
  if ((request.destination_device >= 0 && (to == nullptr || to->device() != request.destination_device)) ||
      (request.source_device >= 0 && (from == nullptr || from->device() != request.source_device)))
    return CUDA_ERROR_INVALID_VALUE;
  if ((to != nullptr && !Covers(to->memory(), Address(request.destination), request.bytes)) ||
      (from != nullptr && !Covers(from->memory(), Address(request.source), request.bytes)))
    return CUDA_ERROR_INVALID_VALUE;
  switch (actual) {
    case Sides::kHostToDevice:
      return OnDevice(target, to, [&](const StreamTarget& there) { return CopyHostToDevice(request, there); });
    case Sides::kDeviceToHost:
      return OnDevice(target, from, [&](const StreamTarget& there) { return CopyDeviceToHost(request, there); });
    case Sides::kDeviceToDevice:
      if (to != from) return CopyPeer(request, target, to, from);
      return OnDevice(target, to, [&](const StreamTarget& there) {
        CopyOnDevice op;
        op.stream = there.stream;
        op.destination = Address(request.destination);
        op.source = Address(request.source);
        op.bytes = request.bytes;
        return there.link->Post(op);
      });
    default:
      break;
  }
  // Between two places of the host: when the stream has come so far.
  if (const CUresult result = SynchronizeStream(target); result != CUDA_SUCCESS) return result;
  std::memmove(request.destination, request.source, request.bytes);
  return CUDA_SUCCESS;
}

CUresult Session::CopyHostToDevice(const CopyRequest& request, const StreamTarget& there) {
  const auto* source = static_cast<const std::byte*>(request.source);
  if (request.bytes <= kMaxInlineBytes) {
    CopyToDeviceInline op;
    op.stream = there.stream;
    op.destination = Address(request.destination);
    op.data = {source, request.bytes};
    there.link->channel().statistics().bytes_to_device.fetch_add(request.bytes, std::memory_order_relaxed);
    return there.link->Post(op);
  }
  Transfers& transfers = there.link->transfers();
  CopyToDevice op;
  op.stream = there.stream;
  op.destination = Address(request.destination);
  op.bytes = request.bytes;
  op.transfer = transfers.BeginOutgoing();
  if (const CUresult result = there.link->Post(op); result != CUDA_SUCCESS) {
    transfers.Forget(op.transfer);
    return result;
  }
  if (request.asynchronous && host_memory_.Find(source, request.bytes)) {
    transfers.SendLater(op.transfer, source, request.bytes);
    return CUDA_SUCCESS;
  }
  const CUresult result = transfers.Send(op.transfer, source, request.bytes);
  return result != CUDA_SUCCESS ? result : there.link->TakePostedFailure();
}

CUresult Session::CopyDeviceToHost(const CopyRequest& request, const StreamTarget& there) {
  Transfers& transfers = there.link->transfers();
  auto incoming = std::make_shared<Incoming>();
  incoming->destination = static_cast<std::byte*>(request.destination);
  incoming->bytes = request.bytes;
  CopyFromDevice op;
  op.stream = there.stream;
  op.source = Address(request.source);
  op.bytes = request.bytes;
  op.transfer = transfers.BeginIncoming(incoming);
  if (const CUresult result = there.link->Post(op); result != CUDA_SUCCESS) {
    transfers.Forget(op.transfer);
    return result;
  }
  // CUDA returns from a copy to pageable memory when the bytes are there.
  if (request.asynchronous && host_memory_.Find(request.destination, request.bytes)) return CUDA_SUCCESS;
  const CUresult result = transfers.WaitComplete(*incoming);
  return result != CUDA_SUCCESS ? result : there.link->TakePostedFailure();
}

CUresult Session::CopyPeer(const CopyRequest& request, const StreamTarget& target, const std::shared_ptr<Link>& to,
                           const std::shared_ptr<Link>& from) {
  if (!request.asynchronous) {
    // The synchronous form starts after all earlier work of both devices.
    for (const auto& link : {to, from})
      if (const CUresult result = link->CallAndStore(DeviceSynchronize{}); result != CUDA_SUCCESS) return result;
  }
  StreamTarget reading{from, 0};
  StreamTarget writing{to, 0};
  CUresult result = from->OwnStream(&reading.stream);
  if (result == CUDA_SUCCESS) result = to->OwnStream(&writing.stream);
  if (result != CUDA_SUCCESS) return result;
  if (target.link == from) {
    reading = target;
  } else if ((result = Order(target, reading)) != CUDA_SUCCESS) {
    return result;
  }
  if (target.link == to) writing = target;

  auto bytes = std::make_shared<Incoming>();
  bytes->owned.resize(request.bytes);
  bytes->destination = bytes->owned.data();
  bytes->bytes = request.bytes;
  // Not a strong reference: the transfer is the link's own, and must not keep it alive.
  bytes->on_complete = [waiting = std::weak_ptr<Link>(to)] {
    if (const auto link = waiting.lock()) link->transfers().Retry();
  };
  CopyFromDevice read;
  read.stream = reading.stream;
  read.source = Address(request.source);
  read.bytes = request.bytes;
  read.transfer = from->transfers().BeginIncoming(bytes);
  if ((result = from->Post(read)) != CUDA_SUCCESS) {
    from->transfers().Forget(read.transfer);
    return result;
  }
  CopyToDevice write;
  write.stream = writing.stream;
  write.destination = Address(request.destination);
  write.bytes = request.bytes;
  write.transfer = to->transfers().BeginOutgoing();
  to->transfers().SendLater(write.transfer, nullptr, request.bytes, bytes);
  if ((result = to->Post(write)) != CUDA_SUCCESS) {
    to->transfers().Forget(write.transfer);
    return result;
  }
  if (target.link != to && (result = Order(writing, target)) != CUDA_SUCCESS) return result;
  return request.asynchronous ? CUDA_SUCCESS : SynchronizeStream(writing);
}

CUresult Session::Set(std::uint64_t address, std::uint32_t value, std::uint64_t bytes, bool asynchronous,
                      const StreamTarget& target) {
  if (bytes == 0) return CUDA_SUCCESS;
  const std::shared_ptr<Link> link = LinkOf(reinterpret_cast<void*>(address));
  if (link == nullptr || !Covers(link->memory(), address, bytes)) return CUDA_ERROR_INVALID_VALUE;
  return OnDevice(target, link, [&](const StreamTarget& there) {
    Memset op;
    op.stream = there.stream;
    op.destination = address;
    op.value = value & 0xff;
    op.element_bytes = 1;
    op.elements = bytes;
    const CUresult result = there.link->Post(op);
    // Memory of a device: CUDA itself does not wait for the set, in either form.
    return result != CUDA_SUCCESS || asynchronous ? result : there.link->TakePostedFailure();
  });
}

}  // namespace cuspan

// Memory and copies of the session: which device a pointer belongs to, and the
// way that bytes take.
#include <algorithm>
#include <cstring>

#include "interpose/client/pools.h"
#include "interpose/client/session_copies.h"

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

CUresult Session::AllocateManaged(std::uint64_t bytes, std::uint64_t* address) {
  std::shared_ptr<Link> link;
  if (const CUresult result = CurrentLink(&link); result != CUDA_SUCCESS) return result;
  if (link->sharing() == Sharing::kNone) return CUDA_ERROR_NOT_SUPPORTED;
  if (const CUresult result = shared_.Allocate(SharedRegion::Kind::kManaged, bytes, address);
      result != CUDA_SUCCESS)
    return result;
  std::lock_guard lock(managed_mutex_);
  managed_[*address] = link->device();
  return CUDA_SUCCESS;
}

CUresult Session::FreeManaged(std::uint64_t address) {
  {
    std::lock_guard lock(managed_mutex_);
    if (managed_.erase(address) == 0) return CUDA_ERROR_INVALID_VALUE;
  }
  CUresult earlier = CUDA_SUCCESS;
  for (const auto& link : Links()) {
    // A lost device uses nothing any more, and says so to whom it concerns.
    if (link->fault() != CUDA_SUCCESS) continue;
    if (const CUresult result = link->Synchronize(DeviceSynchronize{}); result != CUDA_SUCCESS)
      return result;
    if (earlier == CUDA_SUCCESS) earlier = link->TakePostedFailure();
  }
  if (const auto block = shared_.Find(address)) advice_.Forget(address, block->bytes);
  const CUresult result = shared_.Free(address);
  return result != CUDA_SUCCESS ? result : earlier;
}

CUresult Session::Free(std::uint64_t address) {
  if (shared_.IsManaged(address)) return FreeManaged(address);
  const std::shared_ptr<Link> link = LinkOf(reinterpret_cast<void*>(address));
  if (link == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto block = link->memory().Find(address);
  if (!block || block->base != address) return CUDA_ERROR_INVALID_VALUE;
  bool kept = false;
  if (const CUresult result = Pools::Get().Forget(address, &kept); result != CUDA_SUCCESS || kept)
    return result;
  if (const CUresult lost = link->fault(); lost != CUDA_SUCCESS) return lost;
  // cudaFree waits for the device, and programs rely on it for what they read then: memory that
  // kernels and copies write for them. Where there is none, nobody sees the difference.
  if (link->MayWriteHost()) {
    if (const CUresult result = link->Synchronize(DeviceSynchronize{}); result != CUDA_SUCCESS)
      return result;
  }
  // Other devices of its node may copy from and to it.
  if (const CUresult result = peers_.WaitForUsers(*link, address); result != CUDA_SUCCESS)
    return result;
  const CUresult earlier = link->TakePostedFailure();
  const CUresult result = link->memory().Free(address);
  return result != CUDA_SUCCESS ? result : earlier;
}

std::shared_ptr<Link> Session::LinkOf(const void* pointer) {
  std::shared_lock lock(links_mutex_);
  for (const auto& slot : devices_)
    if (slot->link != nullptr && slot->link->memory().InWindow(Address(pointer))) return slot->link;
  // What all devices can use is the current one's, as long as the program has not said otherwise.
  if (shared_.Contains(Address(pointer))) {
    const auto& current = devices_[static_cast<std::size_t>(ThisThread().current_device)]->link;
    return current != nullptr && shared_.Reaches(*current, Address(pointer)) ? current : nullptr;
  }
  // Variables lie where each driver put them: two devices may use one address,
  // and then the current device is meant.
  std::shared_ptr<Link> found;
  for (const auto& slot : devices_)
    if (slot->link != nullptr && slot->link->memory().Find(Address(pointer)))
      if (found == nullptr || slot->link->device() == ThisThread().current_device)
        found = slot->link;
  return found;
}

bool Session::RunsOver(const void* pointer, std::uint64_t bytes) {
  const std::shared_ptr<Link> link = LinkOf(pointer);
  return link != nullptr && link->memory().Find(Address(pointer)) &&
         !Covers(link->memory(), Address(pointer), bytes);
}

Session::Sides Session::SidesOf(const void* destination, const void* source) {
  Sides sides{LinkOf(destination), LinkOf(source)};
  const auto reaches = [this](const std::shared_ptr<Link>& link, const void* pointer) {
    return link != nullptr && shared_.Reaches(*link, Address(pointer));
  };
  if (sides.to == sides.from) return sides;
  if (reaches(sides.from, destination))
    sides.to = sides.from;
  else if (reaches(sides.to, source))
    sides.from = sides.to;
  return sides;
}

std::shared_ptr<Link> Session::CopierOf(const Sides& sides, const void* destination,
                                        const void* source, const StreamTarget& target) {
  if (sides.to == sides.from) return sides.to;
  const auto reaches = [&](const std::shared_ptr<Link>& user) {
    return user == sides.to ? peers_.Reach(*user, *sides.from, Address(source))
                            : peers_.Reach(*user, *sides.to, Address(destination));
  };
  const auto& first = target.link == sides.from ? sides.from : sides.to;
  const auto& second = first == sides.to ? sides.from : sides.to;
  if (reaches(first)) return first;
  return reaches(second) ? second : nullptr;
}

Session::PointerKind Session::ClassifyShared(const void* pointer) {
  const auto range = shared_.Find(Address(pointer));
  if (!range) return {PointerKind::kUnknownHost};
  if (!shared_.IsManaged(Address(pointer))) {
    const auto host = host_memory_.Find(pointer, 1);
    return {PointerKind::kPinnedHost, host ? host->device : 0, range->base, range->bytes};
  }
  std::lock_guard lock(managed_mutex_);
  const auto known = managed_.find(range->base);
  return {PointerKind::kManaged, known != managed_.end() ? known->second : 0, range->base,
          range->bytes};
}

Session::PointerKind Session::Classify(const void* pointer) {
  if (shared_.Contains(Address(pointer))) return ClassifyShared(pointer);
  if (const std::shared_ptr<Link> link = LinkOf(pointer)) {
    PointerKind kind{PointerKind::kDevice, link->device()};
    if (const auto range = link->memory().Find(Address(pointer))) {
      kind.range_base = range->base;
      kind.range_bytes = range->bytes;
    }
    return kind;
  }
  if (const auto host = host_memory_.Find(pointer, 1))
    return {PointerKind::kPinnedHost, host->device};
  return {PointerKind::kUnknownHost};
}

CUresult Session::Order(const StreamTarget& first, const StreamTarget& waiting) {
  std::uint64_t event = 0;
  if (const CUresult result = CreateEventOn(first.link, CU_EVENT_DISABLE_TIMING, &event);
      result != CUDA_SUCCESS)
    return result;
  CUresult result = RecordEvent(event, first);
  if (result == CUDA_SUCCESS) result = WaitEvent(waiting, event);
  const CUresult destroyed = DestroyEvent(event);
  return result != CUDA_SUCCESS ? result : destroyed;
}

CUresult Session::Copy(const CopyRequest& request, const StreamTarget& target) {
  if (request.bytes == 0) return CUDA_SUCCESS;
  bool waited = false;
  const CUresult result = PostCopy(request, target, &waited);
  if (result != CUDA_SUCCESS) return result;
  if (!waited && MustWaitFor(request.destination, request.source, request.asynchronous))
    return SynchronizeStream(target);
  // What came before it in its stream is complete, too.
  if (!request.asynchronous) shared_.registered().Synchronized();
  return CUDA_SUCCESS;
}

CUresult Session::PostCopy(const CopyRequest& request, const StreamTarget& target, bool* waited) {
  const auto& [to, from] = SidesOf(request.destination, request.source);
  using Sides = CopyRequest::Sides;
  const Sides actual = to != nullptr
                           ? (from != nullptr ? Sides::kDeviceToDevice : Sides::kHostToDevice)
                           : (from != nullptr ? Sides::kDeviceToHost : Sides::kHostToHost);
  // The driver goes by the pointers; it refuses only pageable memory where the
  // kind says device (measured on an H200 with every pair of kind and pointers).
  const bool to_device =
      request.sides == Sides::kHostToDevice || request.sides == Sides::kDeviceToDevice;
  const bool from_device =
      request.sides == Sides::kDeviceToHost || request.sides == Sides::kDeviceToDevice;
  if ((to_device && to == nullptr && !host_memory_.Find(request.destination, request.bytes)) ||
      (from_device && from == nullptr && !host_memory_.Find(request.source, request.bytes)))
    return CUDA_ERROR_INVALID_VALUE;
  if ((request.destination_device >= 0 &&
       (to == nullptr || to->device() != request.destination_device)) ||
      (request.source_device >= 0 && (from == nullptr || from->device() != request.source_device)))
    return CUDA_ERROR_INVALID_VALUE;
  if ((to != nullptr && !Covers(to->memory(), Address(request.destination), request.bytes)) ||
      (from != nullptr && !Covers(from->memory(), Address(request.source), request.bytes)))
    return CUDA_ERROR_INVALID_VALUE;
  switch (actual) {
    case Sides::kHostToDevice:
      return OnDevice(target, to,
                      [&](const StreamTarget& there) { return CopyHostToDevice(request, there); });
    case Sides::kDeviceToHost:
      *waited = !request.asynchronous;
      return OnDevice(target, from,
                      [&](const StreamTarget& there) { return CopyDeviceToHost(request, there); });
    case Sides::kDeviceToDevice:
      if (const std::shared_ptr<Link> copier =
              CopierOf({to, from}, request.destination, request.source, target)) {
        CopyOnDevice op;
        op.destination = Address(request.destination);
        op.source = Address(request.source);
        op.bytes = request.bytes;
        return CopyByItself(copier, {to, from}, request.asynchronous, target, op);
      } else {
        PeerCopies::Copy copy{to, from, {}, {}, {request.bytes, 1, 1}};
        copy.to_place.address = Address(request.destination);
        copy.from_place.address = Address(request.source);
        return CopyPeer(copy, request.asynchronous, target);
      }
    default:
      break;
  }
  // Between two places of the host: when the stream has come so far.
  *waited = true;
  if (const CUresult result = SynchronizeStream(target); result != CUDA_SUCCESS) return result;
  std::memmove(request.destination, request.source, request.bytes);
  return CUDA_SUCCESS;
}

CUresult Session::CopyPeer(const PeerCopies::Copy& copy, bool asynchronous,
                           const StreamTarget& target) {
  if (!asynchronous) {
    // The synchronous form starts after all earlier work of both devices.
    for (const auto& link : {copy.to, copy.from})
      if (const CUresult result = link->Synchronize(DeviceSynchronize{}); result != CUDA_SUCCESS)
        return result;
  }
  const auto& ordered = target.link == copy.from ? copy.from : copy.to;
  const CUresult result = OnDevice(target, ordered, [&](const StreamTarget& there) {
    return peer_copies_.Post(copy, there.link, there.stream);
  });
  return result != CUDA_SUCCESS || asynchronous ? result : SynchronizeStream(target);
}

CUresult Session::CopyHostToDevice(const CopyRequest& request, const StreamTarget& there) {
  const auto* source = static_cast<const std::byte*>(request.source);
  const bool pinned = host_memory_.Find(source, request.bytes).has_value();
  // Page-locked memory is read when the stream has come so far, not now.
  if (request.bytes <= kMaxInlineBytes && !(pinned && HostWritesPending())) {
    CopyToDeviceInline op;
    op.stream = there.stream;
    op.destination = Address(request.destination);
    op.data = {source, request.bytes};
    there.link->channel().statistics().bytes_to_device.fetch_add(request.bytes,
                                                                 std::memory_order_relaxed);
    return there.link->Post(op);
  }
  CopyToDevice op;
  op.destination = Address(request.destination);
  op.bytes = request.bytes;
  return SendBytes(there, op, source, request.bytes, {}, request.asynchronous && pinned);
}

CUresult Session::CopyDeviceToHost(const CopyRequest& request, const StreamTarget& there) {
  CopyFromDevice op;
  op.source = Address(request.source);
  op.bytes = request.bytes;
  // CUDA returns from a copy to pageable memory when the bytes are there.
  const bool later = request.asynchronous && host_memory_.Find(request.destination, request.bytes);
  return ReceiveBytes(there, op, static_cast<std::byte*>(request.destination), request.bytes, {},
                      later);
}

CUresult Session::Set(std::uint64_t address, std::uint32_t value, std::uint64_t bytes,
                      bool asynchronous, const StreamTarget& target) {
  // Memory of a device: CUDA itself does not wait for the set, in either form.
  const CUresult result = SetElements(address, value & 0xff, 1, bytes, target);
  return result != CUDA_SUCCESS || asynchronous ? result : target.link->TakePostedFailure();
}

CUresult Session::SetElements(std::uint64_t address, std::uint32_t value,
                              std::uint32_t element_bytes, std::uint64_t elements,
                              const StreamTarget& target) {
  if (elements == 0) return CUDA_SUCCESS;
  if (element_bytes != 1 && element_bytes != 2 && element_bytes != 4)
    return CUDA_ERROR_INVALID_VALUE;
  std::uint64_t bytes = 0;
  if (address % element_bytes != 0 ||
      __builtin_mul_overflow(elements, std::uint64_t{element_bytes}, &bytes))
    return CUDA_ERROR_INVALID_VALUE;
  const std::shared_ptr<Link> link = LinkOf(reinterpret_cast<void*>(address));
  if (link == nullptr || !Covers(link->memory(), address, bytes)) return CUDA_ERROR_INVALID_VALUE;
  return OnDevice(target, link, [&](const StreamTarget& there) {
    Memset op;
    op.stream = there.stream;
    op.destination = address;
    op.value = value;
    op.element_bytes = static_cast<std::uint8_t>(element_bytes);
    op.elements = elements;
    return there.link->Post(op);
  });
}

}  // namespace cuspan

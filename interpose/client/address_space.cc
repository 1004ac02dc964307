#include "interpose/client/address_space.h"

#include "interpose/client/base/thread_state.h"
#include "interpose/client/memory/addresses.h"
#include "protocol/api/address_plan.h"

namespace cuspan {

// --- Allocating and freeing

CUresult AddressSpace::Allocate(std::uint64_t bytes, std::uint64_t* address) {
  std::shared_ptr<ContextConnection> connection;
  if (const CUresult result = parts_.devices->OpenCurrent(&connection); result != CUDA_SUCCESS)
    return result;
  return connection->memory().Allocate(bytes, address);
}

CUresult AddressSpace::AllocateManaged(std::uint64_t bytes, std::uint64_t* address) {
  std::shared_ptr<ContextConnection> connection;
  if (const CUresult result = parts_.devices->OpenCurrent(&connection); result != CUDA_SUCCESS)
    return result;
  if (connection->sharing() == Sharing::kNone) return CUDA_ERROR_NOT_SUPPORTED;
  if (const CUresult result = parts_.region->Allocate(SharedRegion::Kind::kManaged, bytes, address);
      result != CUDA_SUCCESS)
    return result;
  const MutexLock lock(managed_mutex_);
  managed_[*address] = connection->device();
  return CUDA_SUCCESS;
}

CUresult AddressSpace::FreeManaged(std::uint64_t address) {
  {
    const MutexLock lock(managed_mutex_);
    if (managed_.erase(address) == 0) return CUDA_ERROR_INVALID_VALUE;
  }
  CUresult earlier = CUDA_SUCCESS;
  for (const auto& connection : parts_.devices->ContextConnections()) {
    // A lost device uses no memory; its error is reported elsewhere.
    if (connection->fault() != CUDA_SUCCESS) continue;
    if (const CUresult result = connection->Synchronize(DeviceSynchronize{});
        result != CUDA_SUCCESS)
      return result;
    if (earlier == CUDA_SUCCESS) earlier = connection->ConsumePostedFailure();
  }
  if (const auto block = parts_.region->Find(address)) advice_.Forget(address, block->bytes);
  const CUresult result = parts_.region->Free(address);
  return result != CUDA_SUCCESS ? result : earlier;
}

CUresult AddressSpace::Free(std::uint64_t address) {
  // Memory of another process, from a shared pool.
  if (parts_.pools->ForgetImported(address)) return parts_.ipc->Close(address);
  if (parts_.region->IsManaged(address)) return FreeManaged(address);
  const std::shared_ptr<ContextConnection> connection =
      ConnectionOf(reinterpret_cast<void*>(address));
  if (connection == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return FreeOnDevice(*connection, address);
}

CUresult AddressSpace::FreeLater(std::uint64_t address) {
  if (parts_.region->IsManaged(address)) return CUDA_ERROR_NOT_SUPPORTED;
  if (parts_.region->Contains(address)) return CUDA_ERROR_INVALID_VALUE;
  const std::shared_ptr<ContextConnection> connection =
      ConnectionOf(reinterpret_cast<void*>(address));
  if (connection == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult lost = connection->fault(); lost != CUDA_SUCCESS) return lost;
  return connection->memory().Free(address);
}

CUresult AddressSpace::FreeOnDevice(ContextConnection& connection, std::uint64_t address) {
  const auto block = connection.memory().Find(address);
  if (!block || block->base != address) return CUDA_ERROR_INVALID_VALUE;
  if (parts_.graph_blocks->Contains(address)) return parts_.graph_blocks->Reclaim(address);
  parts_.pools->Remove(address);
  if (const CUresult lost = connection.fault(); lost != CUDA_SUCCESS) return lost;
  // cudaFree waits for the device, and programs then read memory written by its kernels and copies.
  // Without pending writes the wait is not observable.
  if (connection.MayWriteHost()) {
    if (const CUresult result = connection.Synchronize(DeviceSynchronize{}); result != CUDA_SUCCESS)
      return result;
  }
  // Other devices of its node may copy from and to it.
  if (const CUresult result = parts_.peers->WaitForUsers(connection, address);
      result != CUDA_SUCCESS)
    return result;
  const CUresult earlier = connection.ConsumePostedFailure();
  const CUresult result = connection.memory().Free(address);
  return result != CUDA_SUCCESS ? result : earlier;
}

// --- Classifying pointers

template <typename Use>
auto AddressSpace::VisitDeviceOf(std::uint64_t address, Use&& use) {
  // Each driver places variables itself: two devices may use the same address. The current device
  // is preferred.
  return parts_.devices->VisitConnection(
      [&](const ContextConnection& connection) { return connection.memory().Owns(address); },
      [&](const ContextConnection& connection) {
        return connection.memory().Find(address).has_value();
      },
      use);
}

std::shared_ptr<ContextConnection> AddressSpace::ConnectionOf(const void* pointer) {
  const std::uint64_t address = AddressOf(pointer);
  // Memory usable by all devices counts as the current device's, unless the program names one.
  if (parts_.region->Contains(address)) {
    auto current = parts_.devices->Opened(parts_.devices->CurrentContext());
    return current != nullptr && parts_.region->Reaches(*current, address) ? current : nullptr;
  }
  return VisitDeviceOf(
      address, [](const std::shared_ptr<ContextConnection>& connection) { return connection; });
}

bool AddressSpace::RunsOver(const void* pointer, std::uint64_t bytes) {
  const std::shared_ptr<ContextConnection> connection = ConnectionOf(pointer);
  return connection != nullptr && connection->memory().Find(AddressOf(pointer)) &&
         !connection->memory().Covers(AddressOf(pointer), bytes);
}

bool AddressSpace::Holds(const void* pointer, std::uint64_t bytes) {
  const PointerKind kind = Classify(pointer);
  if (kind.kind == PointerKind::kUnknownHost || kind.range_bytes == 0) return false;
  // Only mappings of the program can be adjacent.
  if (!MayReserve(AddressOf(pointer), 1))
    return bytes <= kind.range_bytes - (AddressOf(pointer) - kind.range_base);
  const std::shared_ptr<ContextConnection> connection = ConnectionOf(pointer);
  return connection != nullptr && connection->memory().Covers(AddressOf(pointer), bytes);
}

void* AddressSpace::ForCopies(const void* memory, std::uint64_t bytes,
                              const std::shared_ptr<ContextConnection>& other) const {
  const auto address = parts_.region->registered().DeviceAddress(memory, bytes);
  if (address && other != nullptr && parts_.region->Reaches(*other, *address))
    return PointerTo(*address);
  return const_cast<void*>(memory);
}

CopyEnds AddressSpace::EndsOf(const void* destination, const void* source) {
  CopyEnds ends{ConnectionOf(destination), ConnectionOf(source)};
  if (ends.to == ends.from) return ends;
  // Contexts of a device share the program's mappings.
  const bool one_device =
      ends.to != nullptr && ends.from != nullptr && ends.to->device() == ends.from->device();
  const auto reaches = [&](const std::shared_ptr<ContextConnection>& connection,
                           const void* pointer) {
    const std::uint64_t address = AddressOf(pointer);
    if (one_device && MayReserve(address, 1)) return connection->memory().Covers(address, 1);
    return connection != nullptr && parts_.region->Reaches(*connection, address);
  };
  if (reaches(ends.from, destination))
    ends.to = ends.from;
  else if (reaches(ends.to, source))
    ends.from = ends.to;
  return ends;
}

std::shared_ptr<ContextConnection> AddressSpace::CopierOf(const CopyEnds& ends,
                                                          const void* destination,
                                                          const void* source,
                                                          const StreamTarget& target) {
  if (ends.to == ends.from) return ends.to;
  const auto reaches = [&](const std::shared_ptr<ContextConnection>& user) {
    return user == ends.to ? parts_.peers->Reach(*user, *ends.from, AddressOf(source))
                           : parts_.peers->Reach(*user, *ends.to, AddressOf(destination));
  };
  const auto& first = target.connection == ends.from ? ends.from : ends.to;
  const auto& second = first == ends.to ? ends.from : ends.to;
  if (reaches(first)) return first;
  return reaches(second) ? second : nullptr;
}

bool AddressSpace::SeenByOthers(const void* destination, const void* source) const {
  return parts_.region->Contains(AddressOf(destination)) ||
         parts_.region->Contains(AddressOf(source)) || parts_.ipc->in_use();
}

PointerKind AddressSpace::ClassifyShared(const void* pointer) {
  const auto range = parts_.region->Find(AddressOf(pointer));
  if (!range) return {PointerKind::kUnknownHost};
  if (!parts_.region->IsManaged(AddressOf(pointer))) {
    const auto host = parts_.host->Find(pointer, 1);
    return {PointerKind::kPinnedHost, host ? host->device : 0, range->base, range->bytes};
  }
  const MutexLock lock(managed_mutex_);
  const auto known = managed_.find(range->base);
  return {PointerKind::kManaged, known != managed_.end() ? known->second : 0, range->base,
          range->bytes};
}

// Looks in the program's mappings: they outlive contexts.
PointerKind AddressSpace::ClassifyMapped(const void* pointer) {
  std::uint64_t base = 0;
  const auto allocation = parts_.mapped->At(AddressOf(pointer), &base);
  if (!allocation) return {PointerKind::kUnknownHost};
  return {PointerKind::kDevice, allocation->device, base, allocation->bytes};
}

PointerKind AddressSpace::Classify(const void* pointer) {
  auto& known = SlotOf(ThisThread().blocks, AddressOf(pointer));
  // Read before the lookup: a block freed meanwhile is not cached.
  const std::uint64_t version = parts_.common->blocks_version.load(std::memory_order_acquire);
  if (known.pointer == AddressOf(pointer) && known.version == version)
    return {PointerKind::kDevice, known.device, known.base, known.bytes};
  if (parts_.region->Contains(AddressOf(pointer))) return ClassifyShared(pointer);
  const auto describe = [&](const std::shared_ptr<ContextConnection>& connection) {
    if (connection == nullptr) return PointerKind{PointerKind::kUnknownHost};
    PointerKind kind{PointerKind::kDevice, connection->device()};
    if (const auto range = connection->memory().Find(AddressOf(pointer))) {
      kind.range_base = range->base;
      kind.range_bytes = range->bytes;
      if (connection->memory().InWindow(AddressOf(pointer)))
        known = {AddressOf(pointer), version, kind.device, range->base, range->bytes};
    }
    return kind;
  };
  if (const PointerKind kind = VisitDeviceOf(AddressOf(pointer), describe);
      kind.kind == PointerKind::kDevice)
    return kind;
  if (MayReserve(AddressOf(pointer), 1)) return ClassifyMapped(pointer);
  if (const auto host = parts_.host->Find(pointer, 1))
    return {PointerKind::kPinnedHost, host->device};
  return {PointerKind::kUnknownHost};
}

}  // namespace cuspan

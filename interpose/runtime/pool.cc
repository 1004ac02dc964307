// Memory in a stream's order, and the pools that it comes from.
#include <cstring>
#include <optional>

#include "interpose/calls/graph/capture.h"
#include "interpose/calls/graph/memory_nodes.h"
#include "interpose/client/pools.h"
#include "interpose/runtime/entry.h"

namespace cuspan {
namespace {

bool HasDevice(const Session& session, int device) {
  return device >= 0 && device < session.device_count();
}

// use(Session&, pool) → Error.
template <typename Use>
Error WithPool(cudaMemPool_t handle, Use&& use) {
  return WithSession([&](Session& session) -> Error {
    const std::shared_ptr<MemoryPool> pool = Pools::Get().Find(NumberOf(handle));
    if (pool == nullptr) return cudaErrorInvalidValue;
    return use(session, pool);
  });
}

Error AllocateFrom(Session& session, const std::shared_ptr<MemoryPool>& pool, std::size_t bytes,
                   void** memory) {
  *memory = nullptr;
  if (bytes == 0) return cudaSuccess;
  std::uint64_t address = 0;
  CUSPAN_RETURN_IF_FAILED(Pools::Get().Allocate(session, pool, bytes, &address));
  *memory = HandleOf<void*>(address);
  return cudaSuccess;
}

Error AllocateInOrder(void** memory, std::size_t bytes, std::optional<cudaMemPool_t> handle,
                      cudaStream_t stream, DefaultStream meaning) {
  if (memory == nullptr) return cudaErrorInvalidValue;
  const auto find = [&](const StreamTarget& target) {
    return handle ? Pools::Get().Find(NumberOf(*handle))
                  : Pools::Get().Current(target.link->device());
  };
  return InStream(
      stream, meaning,
      [&](Session& session, const StreamTarget& target) -> Error {
        const auto pool = find(target);
        if (pool == nullptr) return cudaErrorInvalidValue;
        return AllocateFrom(session, pool, bytes, memory);
      },
      [&](Session&, const StreamTarget& target, const NewNode& place, Work* work) -> Described {
        *memory = nullptr;
        const auto pool = find(target);
        if (pool == nullptr) return cudaErrorInvalidValue;
        CUDA_MEM_ALLOC_NODE_PARAMS parameters{};
        parameters.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
        parameters.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        parameters.poolProps.location.id = pool->device;
        parameters.bytesize = bytes;
        const Error result = DescribeAllocation(place, &parameters, work);
        *memory = HandleOf<void*>(parameters.dptr);
        return OrEndsCapture(result);
      });
}

Error FreeInOrder(void* memory, cudaStream_t stream, DefaultStream meaning) {
  if (memory == nullptr) return cudaErrorInvalidValue;
  return InStream(
      stream, meaning,
      [&](Session& session, const StreamTarget&) -> Error {
        return Pools::Get().Free(session, NumberOf(memory));
      },
      [&](Session&, const StreamTarget&, const NewNode& place, Work* work) -> Described {
        const Error result = DescribeFree(place, memory, work);
        return {result, Pools::Get().Holds(NumberOf(memory))};
      });
}

// Numbers are 64 bits wide, switches are ints.
bool IsSwitch(cudaMemPoolAttr attribute) {
  return attribute >= cudaMemPoolReuseFollowEventDependencies &&
         attribute <= cudaMemPoolReuseAllowInternalDependencies;
}

template <typename T>
T Read(const void* value) {
  T out;
  std::memcpy(&out, value, sizeof out);
  return out;
}

template <typename T>
void Write(void* value, T what) {
  std::memcpy(value, &what, sizeof what);
}

Error SetAttribute(MemoryPool& pool, cudaMemPoolAttr attribute, const void* value) {
  if (IsSwitch(attribute)) {
    pool.reuse[attribute - 1] = Read<int>(value) != 0;
    return cudaSuccess;
  }
  const auto number = Read<std::uint64_t>(value);
  switch (attribute) {
    case cudaMemPoolAttrReleaseThreshold:
      pool.release_threshold = number;
      return cudaSuccess;
    // The high-water marks can be reset, and only that.
    case cudaMemPoolAttrReservedMemHigh:
      if (number != 0) return cudaErrorInvalidValue;
      pool.reserved_high = pool.reserved;
      return cudaSuccess;
    case cudaMemPoolAttrUsedMemHigh:
      if (number != 0) return cudaErrorInvalidValue;
      pool.used_high = pool.used;
      return cudaSuccess;
    default:
      return cudaErrorInvalidValue;
  }
}

Error GetAttribute(const MemoryPool& pool, cudaMemPoolAttr attribute, void* value) {
  if (IsSwitch(attribute)) {
    Write(value, static_cast<int>(pool.reuse[attribute - 1]));
    return cudaSuccess;
  }
  switch (attribute) {
    case cudaMemPoolAttrReleaseThreshold:
      Write(value, pool.release_threshold);
      return cudaSuccess;
    case cudaMemPoolAttrReservedMemCurrent:
      Write(value, pool.reserved);
      return cudaSuccess;
    case cudaMemPoolAttrReservedMemHigh:
      Write(value, pool.reserved_high);
      return cudaSuccess;
    case cudaMemPoolAttrUsedMemCurrent:
      Write(value, pool.used);
      return cudaSuccess;
    case cudaMemPoolAttrUsedMemHigh:
      Write(value, pool.used_high);
      return cudaSuccess;
    default:
      return cudaErrorInvalidValue;
  }
}

Error CreatePool(cudaMemPool_t* handle, const cudaMemPoolProps* properties) {
  if (handle == nullptr || properties == nullptr ||
      properties->allocType != cudaMemAllocationTypePinned) {
    return cudaErrorInvalidValue;
  }
  if (properties->location.type != cudaMemLocationTypeDevice)
    return NotSupported("cudaMemPoolCreate with a host-located pool");
  const bool shareable = properties->handleTypes == cudaMemHandleTypePosixFileDescriptor;
  if (properties->handleTypes != cudaMemHandleTypeNone && !shareable)
    return NotSupported("cudaMemPoolCreate with a handle type other than a file descriptor");
  return WithSession([&](Session& session) -> Error {
    if (!HasDevice(session, properties->location.id)) return cudaErrorInvalidDevice;
    const auto pool = Pools::Get().Create(properties->location.id, properties->maxSize);
    pool->shareable = shareable;
    *handle = HandleOf<cudaMemPool_t>(pool->handle);
    return cudaSuccess;
  });
}

// No device's kernels reach another's memory, and each reaches its own.
Error SetAccess(Session& session, const MemoryPool& pool, const cudaMemAccessDesc* list,
                std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if (list[i].location.type != cudaMemLocationTypeDevice ||
        !HasDevice(session, list[i].location.id)) {
      return cudaErrorInvalidValue;
    }
    const bool own = list[i].location.id == pool.device;
    const bool wanted = list[i].flags != cudaMemAccessFlagsProtNone;
    if (own != wanted) return cudaErrorInvalidDevice;
  }
  return cudaSuccess;
}

Error CheckLocation(const Session& session, const cudaMemLocation* location,
                    cudaMemAllocationType type) {
  if (location == nullptr || type != cudaMemAllocationTypePinned) return cudaErrorInvalidValue;
  if (location->type != cudaMemLocationTypeDevice)
    return NotSupported("a host-located memory pool");
  return HasDevice(session, location->id) ? cudaSuccess : cudaErrorInvalidDevice;
}

Error SetCurrent(Session& session, int device, const std::shared_ptr<MemoryPool>& pool) {
  if (!HasDevice(session, device)) return cudaErrorInvalidDevice;
  if (pool->device != device) return cudaErrorInvalidDevice;
  Pools::Get().SetCurrent(device, pool);
  return cudaSuccess;
}

enum class Which { kDefault, kCurrent };

Error GetPool(cudaMemPool_t* handle, int device, Which which) {
  if (handle == nullptr) return cudaErrorInvalidValue;
  return WithSession([&](Session& session) -> Error {
    if (!HasDevice(session, device)) return cudaErrorInvalidDevice;
    Pools& pools = Pools::Get();
    const auto pool = which == Which::kDefault ? pools.Default(device) : pools.Current(device);
    *handle = HandleOf<cudaMemPool_t>(pool->handle);
    return cudaSuccess;
  });
}

Error GetPool(cudaMemPool_t* handle, const cudaMemLocation* location, cudaMemAllocationType type,
              Which which) {
  CUSPAN_RETURN_IF_FAILED(
      WithSession([&](Session& session) { return CheckLocation(session, location, type); }));
  return GetPool(handle, location->id, which);
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT_TWINS(cudaMallocAsync, _ptsz, (void** memory, std::size_t bytes, cudaStream_t stream),
                    Answer([&] {
                      return AllocateInOrder(memory, bytes, std::nullopt, stream, meaning);
                    }))

CUSPAN_EXPORT_TWINS(cudaMallocFromPoolAsync, _ptsz,
                    (void** memory, std::size_t bytes, cudaMemPool_t pool, cudaStream_t stream),
                    Answer([&] { return AllocateInOrder(memory, bytes, pool, stream, meaning); }))

CUSPAN_EXPORT_TWINS(cudaFreeAsync, _ptsz, (void* memory, cudaStream_t stream),
                    Answer([&] { return FreeInOrder(memory, stream, meaning); }))

CUSPAN_EXPORT cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool,
                                            const cudaMemPoolProps* properties) {
  return Answer([&] { return CreatePool(pool, properties); });
}

CUSPAN_EXPORT cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  return Answer([&] {
    return WithPool(
        pool, [](Session&, const auto& found) -> Error { return Pools::Get().Destroy(found); });
  });
}

// What is free goes back to the device by itself.
CUSPAN_EXPORT cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, std::size_t /*keep*/) {
  return Answer(
      [&] { return WithPool(pool, [](Session&, const auto&) -> Error { return cudaSuccess; }); });
}

CUSPAN_EXPORT cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute,
                                                  void* value) {
  return Answer([&]() -> Error {
    if (value == nullptr) return cudaErrorInvalidValue;
    return WithPool(pool, [&](Session&, const auto& found) -> Error {
      Error result = cudaSuccess;
      Pools::Get().With(*found, [&](MemoryPool& p) { result = SetAttribute(p, attribute, value); });
      return result;
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute,
                                                  void* value) {
  return Answer([&]() -> Error {
    if (value == nullptr) return cudaErrorInvalidValue;
    return WithPool(pool, [&](Session&, const auto& found) -> Error {
      Error result = cudaSuccess;
      Pools::Get().With(*found,
                        [&](const MemoryPool& p) { result = GetAttribute(p, attribute, value); });
      return result;
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc* list,
                                               std::size_t count) {
  return Answer([&]() -> Error {
    if (list == nullptr && count != 0) return cudaErrorInvalidValue;
    return WithPool(pool, [&](Session& session, const auto& found) {
      return SetAccess(session, *found, list, count);
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaMemPoolGetAccess(cudaMemAccessFlags* flags, cudaMemPool_t pool,
                                               cudaMemLocation* location) {
  return Answer([&]() -> Error {
    if (flags == nullptr || location == nullptr) return cudaErrorInvalidValue;
    return WithPool(pool, [&](Session& session, const auto& found) -> Error {
      if (location->type != cudaMemLocationTypeDevice || !HasDevice(session, location->id)) {
        return cudaErrorInvalidValue;
      }
      *flags = location->id == found->device ? cudaMemAccessFlagsProtReadWrite
                                             : cudaMemAccessFlagsProtNone;
      return cudaSuccess;
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  return Answer([&] { return GetPool(pool, device, Which::kDefault); });
}

CUSPAN_EXPORT cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) {
  return Answer([&] { return GetPool(pool, device, Which::kCurrent); });
}

CUSPAN_EXPORT cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool) {
  return Answer([&] {
    return WithPool(pool, [&](Session& session, const auto& found) {
      return SetCurrent(session, device, found);
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaMemGetDefaultMemPool(cudaMemPool_t* pool, cudaMemLocation* location,
                                                   cudaMemAllocationType type) {
  return Answer([&] { return GetPool(pool, location, type, Which::kDefault); });
}

CUSPAN_EXPORT cudaError_t cudaMemGetMemPool(cudaMemPool_t* pool, cudaMemLocation* location,
                                            cudaMemAllocationType type) {
  return Answer([&] { return GetPool(pool, location, type, Which::kCurrent); });
}

CUSPAN_EXPORT cudaError_t cudaMemSetMemPool(cudaMemLocation* location, cudaMemAllocationType type,
                                            cudaMemPool_t pool) {
  return Answer([&] {
    return WithPool(pool, [&](Session& session, const auto& found) -> Error {
      CUSPAN_RETURN_IF_FAILED(CheckLocation(session, location, type));
      return SetCurrent(session, location->id, found);
    });
  });
}

// Stream-ordered memory, and its pools.
#include "interpose/calls/pool.h"

#include <vector>

#include "interpose/runtime/entry.h"
#include "interpose/runtime/same_bytes.h"

namespace cuspan {
namespace {

Error Allocate(void** memory, std::size_t bytes, std::optional<cudaMemPool_t> pool,
               cudaStream_t stream, DefaultStream meaning) {
  if (memory == nullptr) return cudaErrorInvalidValue;
  std::uint64_t address = 0;
  const Error result = AllocateInOrder(bytes, pool, stream, meaning, &address);
  *memory = HandleOf<void*>(address);
  return result;
}

// The numbers are equal.
CUmemPool_attribute DriversOf(cudaMemPoolAttr attribute) {
  return static_cast<CUmemPool_attribute>(attribute);
}

Error GetPoolAt(cudaMemPool_t* pool, const cudaMemLocation* location, cudaMemAllocationType type,
                PoolOf which) {
  if (location == nullptr) return cudaErrorInvalidValue;
  const auto drivers = SameBytes<CUmemLocation>(*location);
  return GetPool(pool, &drivers, static_cast<CUmemAllocationType>(type), which);
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT_TWINS(cudaMallocAsync, _ptsz, (void** memory, std::size_t bytes, cudaStream_t stream),
                    Answer([&] { return Allocate(memory, bytes, std::nullopt, stream, meaning); }))

CUSPAN_EXPORT_TWINS(cudaMallocFromPoolAsync, _ptsz,
                    (void** memory, std::size_t bytes, cudaMemPool_t pool, cudaStream_t stream),
                    Answer([&] { return Allocate(memory, bytes, pool, stream, meaning); }))

CUSPAN_EXPORT_TWINS(cudaFreeAsync, _ptsz, (void* memory, cudaStream_t stream),
                    Answer([&] { return FreeInOrder(memory, stream, meaning); }))

CUSPAN_EXPORT cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool,
                                            const cudaMemPoolProps* properties) {
  return Answer([&]() -> Error {
    if (properties == nullptr) return cudaErrorInvalidValue;
    const auto drivers = SameBytes<CUmemPoolProps>(*properties);
    return CreatePool(pool, &drivers);
  });
}

CUSPAN_EXPORT cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  return Answer([&] {
    return WithPool(pool, [](Session& session, const auto& found) -> Error {
      return DestroyPool(session, found);
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, std::size_t keep) {
  return Answer([&] {
    return WithPool(pool, [&](Session& session, const auto& found) -> Error {
      session.pools().With(*found, [&](MemoryPool& p) { p.Trim(keep); });
      return cudaSuccess;
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute,
                                                  void* value) {
  return Answer([&]() -> Error {
    if (value == nullptr) return cudaErrorInvalidValue;
    return WithPool(pool, [&](Session& session, const auto& found) -> Error {
      Error result = cudaSuccess;
      session.pools().With(*found, [&](MemoryPool& p) {
        result = SetPoolAttribute(p, DriversOf(attribute), value);
      });
      return result;
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute,
                                                  void* value) {
  return Answer([&]() -> Error {
    if (value == nullptr) return cudaErrorInvalidValue;
    return WithPool(pool, [&](Session& session, const auto& found) -> Error {
      Error result = cudaSuccess;
      session.pools().With(*found, [&](const MemoryPool& p) {
        result = GetPoolAttribute(p, DriversOf(attribute), value);
      });
      return result;
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc* list,
                                               std::size_t count) {
  return Answer([&]() -> Error {
    if (list == nullptr && count != 0) return cudaErrorInvalidValue;
    return WithPool(pool, [&](Session& session, const auto& found) {
      std::vector<CUmemAccessDesc> drivers;
      for (std::size_t i = 0; i < count; ++i)
        drivers.push_back(SameBytes<CUmemAccessDesc>(list[i]));
      return SetPoolAccess(session, *found, drivers.data(), count);
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaMemPoolGetAccess(cudaMemAccessFlags* flags, cudaMemPool_t pool,
                                               cudaMemLocation* location) {
  return Answer([&]() -> Error {
    if (flags == nullptr || location == nullptr) return cudaErrorInvalidValue;
    return WithPool(pool, [&](Session& session, const auto& found) -> Error {
      CUmemAccess_flags given{};
      CUSPAN_RETURN_IF_FAILED(
          GetPoolAccess(session, *found, SameBytes<CUmemLocation>(*location), &given));
      *flags = static_cast<cudaMemAccessFlags>(given);
      return cudaSuccess;
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  return Answer([&] { return GetPool(pool, device, PoolOf::kDefault); });
}

CUSPAN_EXPORT cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) {
  return Answer([&] { return GetPool(pool, device, PoolOf::kCurrent); });
}

CUSPAN_EXPORT cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool) {
  return Answer([&] {
    return WithPool(pool, [&](Session& session, const auto& found) {
      return SetCurrentPool(session, device, found);
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaMemGetDefaultMemPool(cudaMemPool_t* pool, cudaMemLocation* location,
                                                   cudaMemAllocationType type) {
  return Answer([&] { return GetPoolAt(pool, location, type, PoolOf::kDefault); });
}

CUSPAN_EXPORT cudaError_t cudaMemGetMemPool(cudaMemPool_t* pool, cudaMemLocation* location,
                                            cudaMemAllocationType type) {
  return Answer([&] { return GetPoolAt(pool, location, type, PoolOf::kCurrent); });
}

CUSPAN_EXPORT cudaError_t cudaMemSetMemPool(cudaMemLocation* location, cudaMemAllocationType type,
                                            cudaMemPool_t pool) {
  return Answer([&] {
    return WithPool(pool, [&](Session& session, const auto& found) -> Error {
      if (location == nullptr) return cudaErrorInvalidValue;
      const auto drivers = SameBytes<CUmemLocation>(*location);
      return SetCurrentPool(session, &drivers, static_cast<CUmemAllocationType>(type), found);
    });
  });
}

// Memory pools.
#include "interpose/calls/pool.h"

#include "interpose/driver/entry.h"

namespace cuspan {
namespace {

// Calls body(Session&) → Error for pools of a location. An unknown device is an invalid value
// (measured natively).
template <typename Body>
CUresult AtLocation(const CUmemLocation* place, Body&& body) {
  return AnswerWithDriver([&](Session& session) -> Error {
    if (place != nullptr && place->type == CU_MEM_LOCATION_TYPE_DEVICE &&
        !HasDevice(session, place->id))
      return CUDA_ERROR_INVALID_VALUE;
    return body(session);
  });
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* properties) {
  return AnswerWithDriver([&](Session&) { return CreatePool(pool, properties); });
}

CUSPAN_EXPORT CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  return AnswerWithDriver([&](Session&) {
    return WithPool(pool, [](Session& session, const auto& found) -> Error {
      return DestroyPool(session, found);
    });
  });
}

CUSPAN_EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool pool, std::size_t keep) {
  return AnswerWithDriver([&](Session&) {
    return WithPool(pool, [&](Session& session, const auto& found) -> Error {
      session.pools().With(*found, [&](MemoryPool& p) { p.Trim(keep); });
      return CUDA_SUCCESS;
    });
  });
}

CUSPAN_EXPORT CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute,
                                             void* value) {
  return AnswerWithDriver([&](Session&) -> Error {
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return WithPool(pool, [&](Session& session, const auto& found) -> Error {
      Error result = CUDA_SUCCESS;
      session.pools().With(*found,
                           [&](MemoryPool& p) { result = SetPoolAttribute(p, attribute, value); });
      return result;
    });
  });
}

CUSPAN_EXPORT CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute,
                                             void* value) {
  return AnswerWithDriver([&](Session&) -> Error {
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return WithPool(pool, [&](Session& session, const auto& found) -> Error {
      Error result = CUDA_SUCCESS;
      session.pools().With(
          *found, [&](const MemoryPool& p) { result = GetPoolAttribute(p, attribute, value); });
      return result;
    });
  });
}

CUSPAN_EXPORT CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* list,
                                          std::size_t count) {
  return AnswerWithDriver([&](Session&) {
    return WithPool(pool, [&](Session& session, const auto& found) {
      return SetPoolAccess(session, *found, list, count);
    });
  });
}

CUSPAN_EXPORT CUresult cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool pool,
                                          CUmemLocation* location) {
  return AnswerWithDriver([&](Session&) -> Error {
    if (flags == nullptr || location == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return WithPool(pool, [&](Session& session, const auto& found) {
      return GetPoolAccess(session, *found, *location, flags);
    });
  });
}

CUSPAN_EXPORT CUresult cuMemGetDefaultMemPool(CUmemoryPool* pool, CUmemLocation* place,
                                              CUmemAllocationType type) {
  return AtLocation(place, [&](Session&) { return GetPool(pool, place, type, PoolOf::kDefault); });
}

CUSPAN_EXPORT CUresult cuMemGetMemPool(CUmemoryPool* pool, CUmemLocation* place,
                                       CUmemAllocationType type) {
  return AtLocation(place, [&](Session&) { return GetPool(pool, place, type, PoolOf::kCurrent); });
}

CUSPAN_EXPORT CUresult cuMemSetMemPool(CUmemLocation* place, CUmemAllocationType type,
                                       CUmemoryPool pool) {
  return AtLocation(place, [&](Session&) {
    return WithPool(pool, [&](Session& session, const auto& found) {
      return SetCurrentPool(session, place, type, found);
    });
  });
}

// Stream-ordered memory allocation, and its memory pools.
#pragma once

#include <memory>
#include <optional>

#include "interpose/calls/base/ways_in.h"
#include "interpose/client/pools.h"

namespace cuspan {

// Calls use(Session&, const std::shared_ptr<MemoryPool>&) → Error.
template <typename Use>
Error WithPool(CUmemoryPool handle, Use&& use) {
  return WithSession([&](Session& session) -> Error {
    const std::shared_ptr<MemoryPool> pool = session.pools().Find(NumberOf(handle));
    if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return use(session, pool);
  });
}

// Allocates from this pool, or from the current pool of the stream's device. The stream may be
// capturing. *address is 0 for 0 bytes and after a failure.
Error AllocateInOrder(std::size_t bytes, std::optional<CUmemoryPool> handle, CUstream stream,
                      DefaultStream meaning, std::uint64_t* address);
// Ignores null, same as cuMemFreeAsync.
Error FreeInOrder(void* memory, CUstream stream, DefaultStream meaning);

Error CreatePool(CUmemoryPool* handle, const CUmemPoolProps* properties);
Error DestroyPool(Session& session, const std::shared_ptr<MemoryPool>& pool);
// To be called within Pools::With. `value` points to 64 bits, or to an int for switches.
Error SetPoolAttribute(MemoryPool& pool, CUmemPool_attribute attribute, const void* value);
Error GetPoolAttribute(const MemoryPool& pool, CUmemPool_attribute attribute, void* value);
Error SetPoolAccess(Session& session, const MemoryPool& pool, const CUmemAccessDesc* list,
                    std::size_t count);
Error GetPoolAccess(Session& session, const MemoryPool& pool, const CUmemLocation& location,
                    CUmemAccess_flags* flags);

// The pool made with a device, or the current one, used by allocations without a pool.
enum class PoolOf { kDefault, kCurrent };
Error GetPool(CUmemoryPool* handle, int device, PoolOf which);
Error GetPool(CUmemoryPool* handle, const CUmemLocation* location, CUmemAllocationType type,
              PoolOf which);
Error SetCurrentPool(Session& session, int device, const std::shared_ptr<MemoryPool>& pool);
Error SetCurrentPool(Session& session, const CUmemLocation* location, CUmemAllocationType type,
                     const std::shared_ptr<MemoryPool>& pool);

}  // namespace cuspan

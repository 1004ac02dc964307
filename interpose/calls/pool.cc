#include "interpose/calls/pool.h"

#include <cstring>
#include <optional>

#include "interpose/calls/base/synchronous_memory.h"
#include "interpose/calls/device.h"
#include "interpose/calls/graph/in_stream.h"
#include "interpose/calls/graph/memory_nodes.h"
#include "interpose/calls/peer_memory.h"
#include "interpose/calls/virtual_memory.h"
#include "interpose/client/pools.h"

namespace cuspan {
namespace {

// True for attributes of type int. Others have 64 bits.
bool IsSwitch(CUmemPool_attribute attribute) {
  return attribute >= CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES &&
         attribute <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
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

Error CheckLocation(const Session& session, const CUmemLocation* location,
                    CUmemAllocationType type) {
  if (location == nullptr || type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
  if (location->type != CU_MEM_LOCATION_TYPE_DEVICE)
    return NotSupported("a host-located memory pool");
  return HasDevice(session, location->id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

}  // namespace

Error AllocateInOrder(std::size_t bytes, std::optional<CUmemoryPool> handle, CUstream stream,
                      DefaultStream meaning, std::uint64_t* address) {
  *address = 0;
  const auto find = [&](Session& session, const StreamTarget& target) {
    return handle ? session.pools().Find(NumberOf(*handle))
                  : session.pools().Current(target.connection->device());
  };
  return InStream(
      stream, meaning,
      [&](Session& session, const StreamTarget& target) -> Error {
        const auto pool = find(session, target);
        if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
        if (bytes == 0) return CUDA_SUCCESS;
        return session.pools().Allocate(pool, target.connection, bytes, address);
      },
      [&](Session& session, const StreamTarget& target, const NewNode& place,
          Work* work) -> Described {
        const auto pool = find(session, target);
        if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
        CUDA_MEM_ALLOC_NODE_PARAMS parameters{};
        parameters.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
        parameters.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        parameters.poolProps.location.id = pool->device;
        parameters.bytesize = bytes;
        const Error result = DescribeAllocation(place, &parameters, work);
        *address = parameters.dptr;
        return OrEndsCapture(result);
      });
}

Error FreeInOrder(void* memory, CUstream stream, DefaultStream meaning) {
  if (memory == nullptr) return CUDA_SUCCESS;
  return InStream(
      stream, meaning,
      [&](Session& session, const StreamTarget&) -> Error {
        ForgetSynchronous(session, memory);
        CUresult result = session.pools().Free(NumberOf(memory));
        // Memory of no pool may belong to a graph or be from cudaMalloc.
        if (result == CUDA_ERROR_INVALID_VALUE)
          result = session.graph_blocks().Reclaim(NumberOf(memory));
        if (result == CUDA_ERROR_INVALID_VALUE &&
            !session.graph_blocks().Contains(NumberOf(memory)))
          result = session.addresses().FreeLater(NumberOf(memory));
        return result;
      },
      [&](Session& session, const StreamTarget&, const NewNode& place, Work* work) -> Described {
        const Error result = DescribeFree(place, memory, work);
        return {result, session.pools().Holds(NumberOf(memory))};
      });
}

Error CreatePool(CUmemoryPool* handle, const CUmemPoolProps* properties) {
  if (handle == nullptr || properties == nullptr ||
      properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  constexpr unsigned kKnownHandles = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR |
                                     CU_MEM_HANDLE_TYPE_WIN32 | CU_MEM_HANDLE_TYPE_WIN32_KMT |
                                     CU_MEM_HANDLE_TYPE_FABRIC;
  if (properties->location.type <= CU_MEM_LOCATION_TYPE_INVALID ||
      properties->location.type > CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT ||
      (static_cast<unsigned>(properties->handleTypes) & ~kKnownHandles) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
    return NotSupported("a host-located memory pool");
  const bool shareable = properties->handleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  if (properties->handleTypes != CU_MEM_HANDLE_TYPE_NONE && !shareable)
    return NotSupported("a memory pool with a handle type other than a file descriptor");
  return WithSession([&](Session& session) -> Error {
    if (!HasDevice(session, properties->location.id)) return CUDA_ERROR_INVALID_VALUE;
    const auto pool = session.pools().Create(properties->location.id, properties->maxSize);
    pool->shareable = shareable;
    *handle = HandleOf<CUmemoryPool>(pool->handle);
    return CUDA_SUCCESS;
  });
}

Error SetPoolAttribute(MemoryPool& pool, CUmemPool_attribute attribute, const void* value) {
  if (IsSwitch(attribute)) {
    pool.reuse[attribute - 1] = Read<int>(value) != 0;
    return CUDA_SUCCESS;
  }
  const auto number = Read<std::uint64_t>(value);
  switch (attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      pool.release_threshold = number;
      return CUDA_SUCCESS;
    // High-water marks can only be reset.
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      if (number != 0) return CUDA_ERROR_INVALID_VALUE;
      pool.reserved_high = pool.reserved;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      if (number != 0) return CUDA_ERROR_INVALID_VALUE;
      pool.used_high = pool.used;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

Error GetPoolAttribute(const MemoryPool& pool, CUmemPool_attribute attribute, void* value) {
  if (IsSwitch(attribute)) {
    Write(value, static_cast<int>(pool.reuse[attribute - 1]));
    return CUDA_SUCCESS;
  }
  switch (attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      Write(value, pool.release_threshold);
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      Write(value, pool.reserved);
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      Write(value, pool.reserved_high);
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      Write(value, pool.used);
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      Write(value, pool.used_high);
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

Error DestroyPool(Session& session, const std::shared_ptr<MemoryPool>& pool) {
  CUSPAN_RETURN_IF_FAILED(session.pools().Destroy(pool));
  session.peer_memory().ForgetPool(pool->handle);
  return CUDA_SUCCESS;
}

// A device always has access to its own pools.
Error SetPoolAccess(Session& session, const MemoryPool& pool, const CUmemAccessDesc* list,
                    std::size_t count) {
  if (list == nullptr && count != 0) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < count; ++i) {
    const auto& [location, flags] = list[i];
    if (location.type != CU_MEM_LOCATION_TYPE_DEVICE || !IsAccess(flags))
      return CUDA_ERROR_INVALID_VALUE;
    if (!HasDevice(session, location.id)) return CUDA_ERROR_INVALID_DEVICE;
    if (location.id != pool.device) {
      if (pool.imported && flags != CU_MEM_ACCESS_FLAGS_PROT_NONE)
        return NotSupported("access of another device to a memory pool of another process");
      CUSPAN_RETURN_IF_FAILED(
          SetPeerPoolAccess(session, location.id, pool.device, pool.handle, flags));
    } else if (flags == CU_MEM_ACCESS_FLAGS_PROT_NONE) {
      return CUDA_ERROR_INVALID_DEVICE;
    }
  }
  return CUDA_SUCCESS;
}

Error GetPoolAccess(Session& session, const MemoryPool& pool, const CUmemLocation& location,
                    CUmemAccess_flags* flags) {
  if (location.type != CU_MEM_LOCATION_TYPE_DEVICE || !HasDevice(session, location.id))
    return CUDA_ERROR_INVALID_VALUE;
  *flags = location.id == pool.device
               ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
               : PeerPoolAccess(session, location.id, pool.device, pool.handle);
  return CUDA_SUCCESS;
}

Error SetCurrentPool(Session& session, int device, const std::shared_ptr<MemoryPool>& pool) {
  if (!HasDevice(session, device)) return CUDA_ERROR_INVALID_DEVICE;
  if (pool->device != device) return CUDA_ERROR_INVALID_DEVICE;
  session.pools().SetCurrent(device, pool);
  return CUDA_SUCCESS;
}

Error SetCurrentPool(Session& session, const CUmemLocation* location, CUmemAllocationType type,
                     const std::shared_ptr<MemoryPool>& pool) {
  CUSPAN_RETURN_IF_FAILED(CheckLocation(session, location, type));
  return SetCurrentPool(session, location->id, pool);
}

Error GetPool(CUmemoryPool* handle, int device, PoolOf which) {
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return WithSession([&](Session& session) -> Error {
    if (!HasDevice(session, device)) return CUDA_ERROR_INVALID_DEVICE;
    Pools& pools = session.pools();
    const auto pool = which == PoolOf::kDefault ? pools.Default(device) : pools.Current(device);
    *handle = HandleOf<CUmemoryPool>(pool->handle);
    return CUDA_SUCCESS;
  });
}

Error GetPool(CUmemoryPool* handle, const CUmemLocation* location, CUmemAllocationType type,
              PoolOf which) {
  CUSPAN_RETURN_IF_FAILED(
      WithSession([&](Session& session) { return CheckLocation(session, location, type); }));
  return GetPool(handle, location->id, which);
}

}  // namespace cuspan

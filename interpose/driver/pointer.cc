// Attributes of pointers.
#include <cstring>
#include <optional>

#include "interpose/calls/base/synchronous_memory.h"
#include "interpose/calls/context.h"
#include "interpose/driver/entry.h"
#include "protocol/api/address_plan.h"

namespace cuspan {
namespace {

template <typename T>
Error Put(void* out, const T& value) {
  std::memcpy(out, &value, sizeof value);
  return CUDA_SUCCESS;
}

// Writes an int, as the driver does (driver 580).
Error PutFlag(void* out, bool flag) { return Put(out, static_cast<int>(flag)); }

// Context of the memory. Host memory belongs to its device's primary context.
const Context& ContextOf(Session& session, const PointerKind& kind, CUdeviceptr address) {
  const auto connection = kind.kind == PointerKind::kDevice
                              ? session.addresses().ConnectionOf(HandleOf<const void*>(address))
                              : nullptr;
  return connection != nullptr ? connection->context() : session.devices().Primary(kind.device);
}

Error PutMapping(void* out, CUpointer_attribute attribute, const BlockAllocator::Range& mapping) {
  return attribute == CU_POINTER_ATTRIBUTE_MAPPING_SIZE
             ? Put(out, static_cast<std::size_t>(mapping.bytes))
             : Put(out, CUdeviceptr{mapping.base});
}

// Range of the allocation, or of the registered memory.
BlockAllocator::Range RangeOf(Session& session, const PointerKind& kind, CUdeviceptr address) {
  if (kind.range_bytes != 0) return {kind.range_base, kind.range_bytes};
  const auto registered = session.host_memory().Find(HandleOf<const void*>(address), 1);
  if (!registered) return {address, 0};
  return {NumberOf(registered->base), registered->bytes};
}

// Range mapped by the device as one piece, with the allocation in it.
BlockAllocator::Range MappingOf(Session& session, const PointerKind& kind, CUdeviceptr address) {
  if (kind.kind == PointerKind::kDevice) {
    const auto connection = session.addresses().ConnectionOf(HandleOf<const void*>(address));
    if (const auto piece =
            connection != nullptr ? connection->memory().Piece(address) : std::nullopt)
      return *piece;
  }
  return RangeOf(session, kind, address);
}

// Attributes of pool memory, owned by no context. Empty for other memory, and for attributes
// without a special value for pools.
std::optional<Error> GetOfPool(Session& session, void* out, CUpointer_attribute attribute,
                               std::uint64_t block) {
  if (attribute != CU_POINTER_ATTRIBUTE_CONTEXT &&
      attribute != CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE &&
      attribute != CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE)
    return std::nullopt;
  const std::shared_ptr<MemoryPool> pool = session.pools().PoolOf(block);
  if (pool == nullptr) return std::nullopt;
  if (attribute == CU_POINTER_ATTRIBUTE_CONTEXT) return Put(out, std::uint64_t{0});
  if (attribute == CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE) return Put(out, pool->handle);
  return PutFlag(out, false);
}

// Attributes of memory mapped by the program (cuMemMap). Empty for other memory, and for attributes
// without a special value.
std::optional<Error> GetOfMapped(Session& session, void* out, CUpointer_attribute attribute,
                                 CUdeviceptr address) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:  // Owned by its device.
      return Put(out, std::uint64_t{0});
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: {
      const auto reservation = session.virtual_memory().Reservation(address);
      if (!reservation) return std::nullopt;
      return attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE
                 ? Put(out, static_cast<std::size_t>(reservation->bytes))
                 : Put(out, CUdeviceptr{reservation->base});
    }
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES: {
      const auto allocation = session.virtual_memory().At(address);
      if (!allocation) return std::nullopt;
      return Put(out, std::uint64_t{allocation->handle_types});
    }
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      return PutFlag(out, false);
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE: {
      std::uint64_t base = 0;
      const auto allocation = session.virtual_memory().At(address, &base);
      if (!allocation) return std::nullopt;
      return PutMapping(out, attribute, {base, allocation->bytes});
    }
    default:
      return std::nullopt;
  }
}

// CUDA_ERROR_INVALID_VALUE if the memory was not allocated through CUDA, or if its kind of memory
// lacks the attribute.
Error GetAttribute(Session& session, void* out, CUpointer_attribute attribute,
                   CUdeviceptr address) {
  const PointerKind kind = session.addresses().Classify(HandleOf<const void*>(address));
  const bool device = kind.kind == PointerKind::kDevice && kind.range_bytes != 0;
  const bool known =
      device || kind.kind == PointerKind::kManaged || kind.kind == PointerKind::kPinnedHost;
  if (!known) return CUDA_ERROR_INVALID_VALUE;
  if (MayReserve(address, 1)) {
    if (const auto mapped = GetOfMapped(session, out, attribute, address)) return *mapped;
  }
  if (device) {
    if (const auto pooled = GetOfPool(session, out, attribute, kind.range_base)) return *pooled;
  }
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return Put(out, NumberOf(HandleOf(&ContextOf(session, kind, address))));
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return Put(
          out, static_cast<unsigned>(kind.kind == PointerKind::kPinnedHost ? CU_MEMORYTYPE_HOST
                                                                           : CU_MEMORYTYPE_DEVICE));
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      if (kind.kind == PointerKind::kPinnedHost && kind.range_bytes == 0) {
        const auto place =
            session.region().registered().DeviceAddress(HandleOf<const void*>(address));
        return Put(out, CUdeviceptr{place.value_or(address)});
      }
      return Put(out, address);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (device) {
        static_cast<void>(Put(out, std::uint64_t{0}));
        return CUDA_ERROR_INVALID_VALUE;
      }
      return Put(out, address);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return PutFlag(out, kind.kind == PointerKind::kManaged);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return Put(out, kind.device);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return Put(out, CUdeviceptr{RangeOf(session, kind, address).base});
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return Put(out, static_cast<std::size_t>(RangeOf(session, kind, address).bytes));
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return PutFlag(out, true);
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      return PutFlag(out, IsSynchronous(session, HandleOf<const void*>(address)));
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
      return PutFlag(out, attribute == CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE && device);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      return Put(out, std::uint64_t{0});
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return Put(out, static_cast<unsigned>(CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE));
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return Put(out, std::uint64_t{0});
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      // Unique among existing allocations.
      return Put(out, std::uint64_t{kind.range_base});
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      return Put(out, std::uint64_t{kind.range_base});
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      return PutMapping(out, attribute, MappingOf(session, kind, address));
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

// Writes the value for memory unknown to CUDA, if several attributes are queried.
void PutNothing(void* out, CUpointer_attribute attribute) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      static_cast<void>(Put(out, -2));
      return;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      static_cast<void>(Put(out, 0U));
      return;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
      static_cast<void>(PutFlag(out, false));
      return;
    default:
      static_cast<void>(Put(out, std::uint64_t{0}));
  }
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT CUresult cuPointerGetAttribute(void* out, CUpointer_attribute attribute,
                                             CUdeviceptr address) {
  return AnswerFromTables([&](Session& session) -> Error {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return GetAttribute(session, out, attribute, address);
  });
}

CUSPAN_EXPORT CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes,
                                              void** out, CUdeviceptr address) {
  return AnswerWithDriver([&](Session& session) -> Error {
    if (count == 0 || attributes == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; ++i) {
      if (out[i] == nullptr || attributes[i] < CU_POINTER_ATTRIBUTE_CONTEXT ||
          attributes[i] > CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE)
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (unsigned i = 0; i < count; ++i) {
      if (GetAttribute(session, out[i], attributes[i], address).failed())
        PutNothing(out[i], attributes[i]);
    }
    return CUDA_SUCCESS;
  });
}

// CU_POINTER_ATTRIBUTE_SYNC_MEMOPS is the only settable attribute.
CUSPAN_EXPORT CUresult cuPointerSetAttribute(const void* value, CUpointer_attribute attribute,
                                             CUdeviceptr address) {
  return AnswerInContext([&](Session& session) -> Error {
    if (value == nullptr || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
      return CUDA_ERROR_INVALID_VALUE;
    unsigned synchronous = 0;
    std::memcpy(&synchronous, value, sizeof synchronous);
    return SetSynchronous(session, HandleOf<const void*>(address), synchronous != 0);
  });
}

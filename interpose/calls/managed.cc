#include "interpose/calls/managed.h"
#include "interpose/calls/graph/in_stream.h"

namespace cuspan {
namespace {

// All of the range must be managed memory of one allocation.
Error CheckManaged(Session& session, const void* memory, std::size_t bytes) {
  if (memory == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  const PointerKind kind = session.addresses().Classify(memory);
  if (kind.kind != PointerKind::kManaged ||
      bytes > kind.range_bytes - (NumberOf(memory) - kind.range_base)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

Error CheckLocation(const Session& session, const CUmemLocation& location) {
  switch (location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      return location.id >= 0 && location.id < session.devices().count()
                 ? CUDA_SUCCESS
                 : CUDA_ERROR_INVALID_DEVICE;
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
      return CUDA_SUCCESS;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
      return location.id >= 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

// The arguments are checked.
Error PrefetchTo(Session& session, const StreamTarget& target, const void* memory,
                 std::size_t bytes, const CUmemLocation& location) {
  session.addresses().advice().Prefetched(NumberOf(memory), bytes, {location.type, location.id});
  // Sends the host's changes ahead of the kernels needing them. Prefetching to the host does
  // nothing: its accesses fetch the data.
  if (location.type != CU_MEM_LOCATION_TYPE_DEVICE || location.id != target.connection->device())
    return CUDA_SUCCESS;
  return session.region().mirrors().Prepare(*target.connection, target.stream);
}

int DeviceNumber(const MemoryAdvice::Location& location) {
  switch (location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      return location.id;
    case CU_MEM_LOCATION_TYPE_HOST:
      return CU_DEVICE_CPU;
    default:
      return CU_DEVICE_INVALID;
  }
}

}  // namespace

Error AllocateManaged(std::size_t bytes, unsigned flags, std::uint64_t* address) {
  if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST) return CUDA_ERROR_INVALID_VALUE;
  return WithSession([&](Session& session) -> Error {
    *address = 0;
    // Success, same as in NVIDIA's runtime (measured); CUDA's documentation names an error.
    if (bytes == 0) return CUDA_SUCCESS;
    const CUresult result = session.addresses().AllocateManaged(bytes, address);
    if (result == CUDA_ERROR_NOT_SUPPORTED) {
      return NotSupported("managed memory (its address range is in use in this process)");
    }
    return result;
  });
}

Error Prefetch(const void* memory, std::size_t bytes, const CUmemLocation& location, unsigned flags,
               CUstream stream, DefaultStream meaning) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return OnStream(stream, meaning, [&](Session& session, const StreamTarget& target) -> Error {
    CUSPAN_RETURN_IF_FAILED(CheckManaged(session, memory, bytes));
    CUSPAN_RETURN_IF_FAILED(CheckLocation(session, location));
    return PrefetchTo(session, target, memory, bytes, location);
  });
}

Error PrefetchBatch(const std::vector<ManagedRange>& ranges, unsigned long long flags,
                    CUstream stream, DefaultStream meaning) {
  if (ranges.empty() || flags != 0 || IsLegacyStream(stream, meaning))
    return CUDA_ERROR_INVALID_VALUE;
  return OnStream(stream, meaning, [&](Session& session, const StreamTarget& target) -> Error {
    for (const ManagedRange& range : ranges) {
      CUSPAN_RETURN_IF_FAILED(CheckManaged(session, range.memory, range.bytes));
      // Unlike in a single prefetch, an unknown device is an invalid value (measured natively).
      if (range.location && CheckLocation(session, *range.location).failed())
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (const ManagedRange& range : ranges) {
      if (range.location)
        CUSPAN_RETURN_IF_FAILED(
            PrefetchTo(session, target, range.memory, range.bytes, *range.location));
    }
    return CUDA_SUCCESS;
  });
}

Error Advise(const void* memory, std::size_t bytes, CUmem_advise advice,
             const CUmemLocation& location) {
  return WithSession([&](Session& session) -> Error {
    CUSPAN_RETURN_IF_FAILED(CheckManaged(session, memory, bytes));
    const bool placed = advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION ||
                        advice == CU_MEM_ADVISE_SET_ACCESSED_BY ||
                        advice == CU_MEM_ADVISE_UNSET_ACCESSED_BY;
    if (advice < CU_MEM_ADVISE_SET_READ_MOSTLY || advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    // Unlike in a prefetch, an unknown device is an invalid value (measured natively).
    if (placed && CheckLocation(session, location).failed()) return CUDA_ERROR_INVALID_VALUE;
    session.addresses().advice().Advise(NumberOf(memory), bytes, advice,
                                        {location.type, location.id});
    return CUDA_SUCCESS;
  });
}

Error RangeAttribute(Session& session, void* data, std::size_t data_bytes,
                     CUmem_range_attribute attribute, const void* memory, std::size_t bytes) {
  if (data == nullptr || data_bytes == 0 || data_bytes % sizeof(int) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  CUSPAN_RETURN_IF_FAILED(CheckManaged(session, memory, bytes));
  if (attribute != CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY && data_bytes != sizeof(int)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const MemoryAdvice::Entry entry = session.addresses().advice().Common(NumberOf(memory), bytes);
  auto* const out = static_cast<int*>(data);
  switch (attribute) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
      *out = entry.read_mostly ? 1 : 0;
      return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
      *out = DeviceNumber(entry.preferred);
      return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
      *out = DeviceNumber(entry.prefetched);
      return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY: {
      std::size_t at = 0;
      for (const int device : entry.accessed_by) {
        if (at < data_bytes / sizeof(int)) out[at++] = device;
      }
      while (at < data_bytes / sizeof(int)) out[at++] = CU_DEVICE_INVALID;
      return CUDA_SUCCESS;
    }
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
      *out = entry.preferred.type;
      return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
      *out = entry.preferred.id;
      return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
      *out = entry.prefetched.type;
      return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
      *out = entry.prefetched.id;
      return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

Error AttachManaged(void* memory, std::size_t bytes, unsigned flags, CUstream stream,
                    DefaultStream meaning) {
  return OnStream(stream, meaning, [&](Session& session, const StreamTarget&) -> Error {
    if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST &&
        flags != CU_MEM_ATTACH_SINGLE) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    const PointerKind kind = session.addresses().Classify(memory);
    if (memory == nullptr || kind.kind != PointerKind::kManaged ||
        NumberOf(memory) != kind.range_base || (bytes != 0 && bytes != kind.range_bytes)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    // CUDA refuses attaching to the null or legacy stream.
    if (flags == CU_MEM_ATTACH_SINGLE && NumberOf(stream) <= 1) return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
  });
}

}  // namespace cuspan

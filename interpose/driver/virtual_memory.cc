// Virtual memory management by the program: addresses, allocations and mappings.
#include "interpose/calls/virtual_memory.h"

#include <bit>

#include "interpose/client/memory/addresses.h"
#include "interpose/driver/entry.h"

using namespace cuspan;  // NOLINT: the entry points below are the C API.

// --- Addresses

CUSPAN_EXPORT CUresult cuMemAddressReserve(CUdeviceptr* address, std::size_t bytes,
                                           std::size_t alignment, CUdeviceptr hint,
                                           unsigned long long flags) {
  return AnswerWithDriver([&](Session& session) -> Error {
    if (address == nullptr || bytes == 0 || bytes % kDriverGranularity != 0 ||
        hint % kDriverGranularity != 0 || flags != 0 ||
        (alignment != 0 && !std::has_single_bit(alignment)))
      return CUDA_ERROR_INVALID_VALUE;
    std::uint64_t reserved = 0;
    CUSPAN_RETURN_IF_FAILED(session.virtual_memory().Reserve(bytes, alignment, hint, &reserved));
    *address = reserved;
    return CUDA_SUCCESS;
  });
}

CUSPAN_EXPORT CUresult cuMemAddressFree(CUdeviceptr address, std::size_t bytes) {
  return AnswerWithDriver(
      [&](Session& session) -> Error { return session.virtual_memory().Free(address, bytes); });
}

// --- Allocations

CUSPAN_EXPORT CUresult cuMemGetAllocationGranularity(std::size_t* granularity,
                                                     const CUmemAllocationProp* properties,
                                                     CUmemAllocationGranularity_flags option) {
  return AnswerWithDriver([&](Session&) -> Error {
    // The granularity is the same for all locations. The location is not checked (measured
    // natively).
    if (granularity == nullptr || properties == nullptr ||
        (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM &&
         option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED))
      return CUDA_ERROR_INVALID_VALUE;
    *granularity = kDriverGranularity;
    return CUDA_SUCCESS;
  });
}

CUSPAN_EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, std::size_t bytes,
                                   const CUmemAllocationProp* properties,
                                   unsigned long long flags) {
  return AnswerWithDriver([&](Session& session) -> Error {
    if (handle == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    AllocationFacts facts{};
    CUSPAN_RETURN_IF_FAILED(CheckAllocation(session, properties, &facts));
    facts.bytes = bytes;
    std::uint64_t made = 0;
    CUSPAN_RETURN_IF_FAILED(session.virtual_memory().Create(facts, &made));
    *handle = made;
    return CUDA_SUCCESS;
  });
}

CUSPAN_EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  return AnswerWithDriver(
      [&](Session& session) -> Error { return session.virtual_memory().Release(handle); });
}

CUSPAN_EXPORT CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle,
                                                   void* address) {
  return AnswerWithDriver([&](Session& session) -> Error {
    if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::uint64_t found = 0;
    CUSPAN_RETURN_IF_FAILED(session.virtual_memory().Retain(NumberOf(address), &found));
    *handle = found;
    return CUDA_SUCCESS;
  });
}

CUSPAN_EXPORT CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* properties,
                                                              CUmemGenericAllocationHandle handle) {
  return AnswerWithDriver([&](Session& session) -> Error {
    const auto facts = session.virtual_memory().Find(handle);
    if (properties == nullptr || !facts) return CUDA_ERROR_INVALID_VALUE;
    *properties = PropertiesOf(*facts);
    return CUDA_SUCCESS;
  });
}

CUSPAN_EXPORT CUresult cuMemExportToShareableHandle(void* exported,
                                                    CUmemGenericAllocationHandle handle,
                                                    CUmemAllocationHandleType type,
                                                    unsigned long long flags) {
  return AnswerWithDriver([&](Session& session) -> Error {
    if (exported == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (type == CU_MEM_HANDLE_TYPE_FABRIC)
      return NotSupported("cuMemExportToShareableHandle with a fabric handle");
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_INVALID_VALUE;
    return ExportAllocation(session, handle, static_cast<int*>(exported));
  });
}

CUSPAN_EXPORT CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle,
                                                      void* exported,
                                                      CUmemAllocationHandleType type) {
  return AnswerWithDriver([&](Session& session) -> Error {
    if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (type == CU_MEM_HANDLE_TYPE_FABRIC)
      return NotSupported("cuMemImportFromShareableHandle with a fabric handle");
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_INVALID_VALUE;
    std::uint64_t made = 0;
    CUSPAN_RETURN_IF_FAILED(ImportAllocation(session, static_cast<int>(NumberOf(exported)), &made));
    *handle = made;
    return CUDA_SUCCESS;
  });
}

// --- Mappings

CUSPAN_EXPORT CUresult cuMemMap(CUdeviceptr address, std::size_t bytes, std::size_t offset,
                                CUmemGenericAllocationHandle handle, unsigned long long flags) {
  return AnswerWithDriver([&](Session& session) -> Error {
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    // The driver maps whole allocations only.
    if (offset != 0) return CUDA_ERROR_NOT_SUPPORTED;
    return session.virtual_memory().Map(address, bytes, handle);
  });
}

CUSPAN_EXPORT CUresult cuMemUnmap(CUdeviceptr address, std::size_t bytes) {
  return AnswerWithDriver(
      [&](Session& session) -> Error { return session.virtual_memory().Unmap(address, bytes); });
}

CUSPAN_EXPORT CUresult cuMemSetAccess(CUdeviceptr address, std::size_t bytes,
                                      const CUmemAccessDesc* access, std::size_t count) {
  return AnswerWithDriver([&](Session& session) -> Error {
    if (access == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
    for (std::size_t i = 0; i < count; ++i) {
      CUSPAN_RETURN_IF_FAILED(SetAccess(session, address, bytes, access[i]));
    }
    return CUDA_SUCCESS;
  });
}

CUSPAN_EXPORT CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location,
                                      CUdeviceptr address) {
  return AnswerWithDriver([&](Session& session) -> Error {
    if (flags == nullptr || location == nullptr) return CUDA_ERROR_INVALID_VALUE;
    CUmemAccess_flags found = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    CUSPAN_RETURN_IF_FAILED(GetAccess(session, address, *location, &found));
    *flags = found;
    return CUDA_SUCCESS;
  });
}

// Virtual memory management (cuMemCreate, …): checks of its arguments, and sharing of allocations
// between processes of a run.
#pragma once

#include "interpose/calls/base/ways_in.h"
#include "interpose/client/virtual_memory.h"

namespace cuspan {

// *facts: the request without its size. Only device memory is supported, exported by file
// descriptor or not at all.
Error CheckAllocation(Session& session, const CUmemAllocationProp* properties,
                      AllocationFacts* facts);
CUmemAllocationProp PropertiesOf(const AllocationFacts& facts);

// *file: a descriptor for the allocation; the caller closes it. CUDA_ERROR_INVALID_VALUE if the
// allocation was not made exportable.
Error ExportAllocation(Session& session, std::uint64_t handle, int* file);
// CUDA_ERROR_NOT_SUPPORTED for memory of a device not visible to this process.
Error ImportAllocation(Session& session, int file, std::uint64_t* handle);

inline bool IsAccess(CUmemAccess_flags flags) {
  return flags == CU_MEM_ACCESS_FLAGS_PROT_NONE || flags == CU_MEM_ACCESS_FLAGS_PROT_READ ||
         flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
}
Error SetAccess(Session& session, CUdeviceptr address, std::size_t bytes,
                const CUmemAccessDesc& access);
// Returns no access for the host.
Error GetAccess(Session& session, CUdeviceptr address, const CUmemLocation& location,
                CUmemAccess_flags* flags);

}  // namespace cuspan

// Memory that the program manages by itself: what may be asked for, and how processes of a run give
// each other allocations.
#pragma once

#include "interpose/calls/ways_in.h"
#include "interpose/client/virtual_memory.h"

namespace cuspan {

// *facts: what is asked for, but for its size. Only memory of devices is supported, exported by
// file descriptor or not at all.
Error CheckAllocation(Session& session, const CUmemAllocationProp* properties,
                      AllocationFacts* facts);
CUmemAllocationProp PropertiesOf(const AllocationFacts& facts);

// A file that stands for the allocation; the caller closes it. CUDA_ERROR_INVALID_VALUE for one
// that was not made to be exported.
Error ExportAllocation(Session& session, std::uint64_t handle, int* file);
// CUDA_ERROR_NOT_SUPPORTED for memory of a device that this process does not see.
Error ImportAllocation(Session& session, int file, std::uint64_t* handle);

inline bool IsAccess(CUmemAccess_flags flags) {
  return flags == CU_MEM_ACCESS_FLAGS_PROT_NONE || flags == CU_MEM_ACCESS_FLAGS_PROT_READ ||
         flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
}
Error SetAccess(Session& session, CUdeviceptr address, std::size_t bytes,
                const CUmemAccessDesc& access);
// No access for locations that can have none.
Error GetAccess(Session& session, CUdeviceptr address, const CUmemLocation& location,
                CUmemAccess_flags* flags);

}  // namespace cuspan

// Managed memory: allocation, and the hints about where it is used.
#pragma once

#include "interpose/calls/ways_in.h"

namespace cuspan {

// `flags`: CU_MEM_ATTACH_GLOBAL or CU_MEM_ATTACH_HOST. *address is 0 for no bytes.
Error AllocateManaged(std::size_t bytes, unsigned flags, std::uint64_t* address);

// All of a range that is named below must be managed memory of one allocation.
Error Prefetch(const void* memory, std::size_t bytes, const CUmemLocation& location, unsigned flags,
               CUstream stream, DefaultStream meaning);
Error Advise(const void* memory, std::size_t bytes, CUmem_advise advice,
             const CUmemLocation& location);
// What is asked for is an int, or a list of them.
Error RangeAttribute(Session& session, void* data, std::size_t data_bytes,
                     CUmem_range_attribute attribute, const void* memory, std::size_t bytes);
// Whom the memory belongs to for the time being changes nothing for us: the host may look at
// managed memory at any time. `flags` as in CUmemAttach_flags.
Error AttachManaged(void* memory, std::size_t bytes, unsigned flags, CUstream stream,
                    DefaultStream meaning);

}  // namespace cuspan

// Managed memory: allocation, and hints about its location.
#pragma once

#include <optional>
#include <vector>

#include "interpose/calls/batch.h"

namespace cuspan {

// `flags`: CU_MEM_ATTACH_GLOBAL or CU_MEM_ATTACH_HOST. *address is 0 for 0 bytes.
Error AllocateManaged(std::size_t bytes, unsigned flags, std::uint64_t* address);

// All of a range below must be managed memory of one allocation.
Error Prefetch(const void* memory, std::size_t bytes, const CUmemLocation& location, unsigned flags,
               CUstream stream, DefaultStream meaning);

struct ManagedRange {
  const void* memory;
  std::size_t bytes;
  std::optional<CUmemLocation> location;  // Target; nullopt: stays where it is.
};
// Makes ranges without target from lists of addresses (pointers or CUdeviceptr) and sizes.
// CUDA_ERROR_INVALID_VALUE if a list is missing.
template <typename Address>
Error RangesOf(const Address* addresses, const std::size_t* sizes, std::size_t count,
               std::vector<ManagedRange>* ranges) {
  if (addresses == nullptr || sizes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < count; ++i)
    ranges->push_back({reinterpret_cast<const void*>(addresses[i]), sizes[i], std::nullopt});
  return CUDA_SUCCESS;
}
// Same with a target for each group (batch.h); get_location(group) → CUmemLocation.
template <typename Address, typename GetLocation>
Error RangesOf(const Address* addresses, const std::size_t* sizes, std::size_t count,
               const std::size_t* first, std::size_t groups, GetLocation&& get_location,
               std::vector<ManagedRange>* ranges) {
  if (!AreGroups(first, groups, count)) return CUDA_ERROR_INVALID_VALUE;
  CUSPAN_RETURN_IF_FAILED(RangesOf(addresses, sizes, count, ranges));
  return ForEachInGroups(first, groups, count, [&](std::size_t i, std::size_t group) -> Error {
    (*ranges)[i].location = get_location(group);
    return CUDA_SUCCESS;
  });
}
// `flags` must be 0. Discarded memory may keep its bytes: discarding is a prefetch without target.
Error PrefetchBatch(const std::vector<ManagedRange>& ranges, unsigned long long flags,
                    CUstream stream, DefaultStream meaning);

Error Advise(const void* memory, std::size_t bytes, CUmem_advise advice,
             const CUmemLocation& location);
// `data` receives an int or, for CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, a list of ints.
Error RangeAttribute(Session& session, void* data, std::size_t data_bytes,
                     CUmem_range_attribute attribute, const void* memory, std::size_t bytes);
// Only checks its arguments: here the host may access managed memory at any time, attached or not.
// `flags` as in CUmemAttach_flags.
Error AttachManaged(void* memory, std::size_t bytes, unsigned flags, CUstream stream,
                    DefaultStream meaning);

}  // namespace cuspan

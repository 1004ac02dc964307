// Helpers of functions taking a list of operations.
#pragma once

#include "interpose/calls/base/ways_in.h"

namespace cuspan {

// Batch functions refuse the legacy default stream, under both of its handles.
inline bool IsLegacyStream(CUstream stream, DefaultStream meaning) {
  return stream == CU_STREAM_LEGACY || (stream == nullptr && meaning == DefaultStream::kLegacy);
}

// Consecutive operations sharing an attribute or location form a group; `first` holds the first
// operation of each. True if the groups begin at 0, ascend and are below `operations`.
inline bool AreGroups(const std::size_t* first, std::size_t groups, std::size_t operations) {
  if (first == nullptr || groups == 0 || groups > operations || first[0] != 0) return false;
  for (std::size_t i = 1; i < groups; ++i)
    if (first[i] <= first[i - 1] || first[i] >= operations) return false;
  return true;
}

// Calls use(operation, group) → Error for each operation, until one fails.
template <typename Use>
Error ForEachInGroups(const std::size_t* first, std::size_t groups, std::size_t operations,
                      Use&& use) {
  std::size_t group = 0;
  for (std::size_t i = 0; i < operations; ++i) {
    if (group + 1 < groups && first[group + 1] == i) ++group;
    CUSPAN_RETURN_IF_FAILED(use(i, group));
  }
  return CUDA_SUCCESS;
}

}  // namespace cuspan

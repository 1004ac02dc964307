// Search for the complete entries of a stream, with few queries. Work of a stream ends in order,
// and a query of an event takes up to 1.5 µs (measured on an H200).
#pragma once

#include <cuda.h>

#include <cstddef>

namespace cuspan::proxy {

// Number of complete entries at the front, and the result of the last of them. Those before it have
// succeeded.
struct CompleteEntries {
  std::size_t count = 0;
  CUresult result = CUDA_ERROR_NOT_READY;
};

// `query(i)` returns the result of entry `i`, or CUDA_ERROR_NOT_READY. It succeeds only if all
// earlier entries have ended. If the first entry is complete, the last one is queried, and then the
// others by bisection. After a failed entry there may be further complete ones.
template <typename Query>
CompleteEntries FindComplete(std::size_t entries, Query&& query) {
  CompleteEntries complete;
  if (entries != 0) complete.result = query(std::size_t{0});
  if (complete.result == CUDA_ERROR_NOT_READY) return complete;
  complete.count = 1;
  std::size_t next = entries - 1;
  for (std::size_t end = entries; complete.result == CUDA_SUCCESS && complete.count < end;
       next = (complete.count + end) / 2) {
    const CUresult result = query(next);
    if (result == CUDA_ERROR_NOT_READY)
      end = next;
    else if (result == CUDA_SUCCESS)
      complete.count = next + 1;
    else
      break;  // Entries between them may have succeeded.
  }
  return complete;
}

}  // namespace cuspan::proxy

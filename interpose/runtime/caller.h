// For functions whose name means different things in different releases of CUDA.
#pragma once

#include <cstddef>
#include <cstring>

#include "interpose/runtime/api.h"

namespace cuspan {

// The major release of CUDA, 11, 12 or 13, whose runtime the program or library with the code at
// `address` was linked with. If it was linked with none, as a caller that uses dlsym: that of the
// libcudart in this process. 13 where that is not known.
int CallerRelease(const void* address);
inline bool CallerIsBefore13(const void* address) { return CallerRelease(address) < 13; }

// Of a major release, as the runtime counts versions. Which one of it the caller has can not be
// seen: the last.
inline int RuntimeVersion(int release) {
  return release == 13 ? CUDART_VERSION : release == 12 ? 12090 : 11080;
}

// Defines FUNCTION##_v2 with the parameters that it has had since CUDA 12, and FUNCTION, which has
// had them since 13: `earlier` makes them of those that programs of earlier releases give.
#define CUSPAN_EXPORT_SINCE_13(function, parameters, earlier, call)       \
  CUSPAN_EXPORT cudaError_t function##_v2 parameters { return call; }     \
  CUSPAN_EXPORT cudaError_t function parameters {                         \
    if (::cuspan::CallerIsBefore13(__builtin_return_address(0))) earlier; \
    return call;                                                          \
  }

// Structures have grown at their ends: copies so much of one as the other side knows.
template <typename T>
void CopyFirst(T* to, const T* from, std::size_t bytes) {
  std::memcpy(static_cast<void*>(to), static_cast<const void*>(from), bytes);
}

}  // namespace cuspan

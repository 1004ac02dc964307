// Support for functions with different meanings in different releases of CUDA.
#pragma once

#include <cstddef>
#include <cstring>

#include "interpose/runtime/api.h"

namespace cuspan {

// Major release (11, 12 or 13) of the CUDA runtime linked to the program or library with the code
// at `address`. If it has none (it uses dlsym), the release of the libcudart in this process. 13 if
// unknown.
int CallerRelease(const void* address);
inline bool CallerIsBefore13(const void* address) { return CallerRelease(address) < 13; }

// Version number of a major release. The caller's minor release is unknown, so the last one is
// reported.
inline int RuntimeVersion(int release) {
  return release == 13 ? CUDART_VERSION : release == 12 ? 12090 : 11080;
}

// Defines FUNCTION##_v2 with the parameters used since CUDA 12, and FUNCTION, with the same
// parameters since CUDA 13. `earlier` converts the parameters of programs built for earlier
// releases.
#define CUSPAN_EXPORT_SINCE_13(function, parameters, earlier, call)       \
  CUSPAN_EXPORT cudaError_t function##_v2 parameters { return call; }     \
  CUSPAN_EXPORT cudaError_t function parameters {                         \
    if (::cuspan::CallerIsBefore13(__builtin_return_address(0))) earlier; \
    return call;                                                          \
  }

// Copies the first `bytes` of a structure: the size known to the program. Structures only grew at
// their ends.
template <typename T>
void CopyFirst(T* to, const T* from, std::size_t bytes) {
  std::memcpy(static_cast<void*>(to), static_cast<const void*>(from), bytes);
}

}  // namespace cuspan

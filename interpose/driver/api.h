// The CUDA driver's functions as declared by <cuda.h>, in all versions, and macros to define them.
#pragma once

// Makes the header declare each function under its exported names. The plain name is the oldest
// version, followed by _v2 and so on. In twins (suffix _ptds or _ptsz), stream 0 is the calling
// thread's own.
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

// Prefix of every definition called by programs.
#define CUSPAN_EXPORT extern "C" __attribute__((visibility("default")))

// Defines FUNCTION and FUNCTION##SUFFIX. They differ in the meaning of stream 0: `call` is
// evaluated with this DefaultStream in `meaning`.
#define CUSPAN_EXPORT_TWINS(function, suffix, parameters, call)                    \
  CUSPAN_EXPORT CUresult function parameters {                                     \
    [[maybe_unused]] constexpr auto meaning = ::cuspan::DefaultStream::kLegacy;    \
    return call;                                                                   \
  }                                                                                \
  CUSPAN_EXPORT CUresult function##suffix parameters {                             \
    [[maybe_unused]] constexpr auto meaning = ::cuspan::DefaultStream::kPerThread; \
    return call;                                                                   \
  }

// The CUDA driver's functions as its own header declares them, in all forms, and how this library
// defines them.
#pragma once

// Makes the header declare each function under the names that the library exports: the plain one,
// which is the oldest form, _v2 and so on, and the twins (suffix _ptds or _ptsz) whose stream 0 is
// the calling thread's own.
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

// In front of every definition that programs call.
#define CUSPAN_EXPORT extern "C" __attribute__((visibility("default")))

// Defines FUNCTION and FUNCTION##SUFFIX, which differ in what stream 0 is: `call` is evaluated with
// the DefaultStream in `meaning`.
#define CUSPAN_EXPORT_TWINS(function, suffix, parameters, call)                    \
  CUSPAN_EXPORT CUresult function parameters {                                     \
    [[maybe_unused]] constexpr auto meaning = ::cuspan::DefaultStream::kLegacy;    \
    return call;                                                                   \
  }                                                                                \
  CUSPAN_EXPORT CUresult function##suffix parameters {                             \
    [[maybe_unused]] constexpr auto meaning = ::cuspan::DefaultStream::kPerThread; \
    return call;                                                                   \
  }

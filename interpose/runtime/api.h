// The CUDA runtime's functions as declared by its header, with their twins, and macros to define
// them.
#pragma once

// Makes the header declare functions with a stream twice: by their plain name, and by the name of
// their twin (suffix _ptds or _ptsz). Twins are called by programs compiled with --default-stream
// per-thread.
#define __CUDA_API_VERSION_INTERNAL
#include <cuda_profiler_api.h>
#include <cuda_runtime_api.h>

// Prefix of every definition called by programs.
#define CUSPAN_EXPORT extern "C" __attribute__((visibility("default")))

// Defines FUNCTION and FUNCTION##SUFFIX. They differ in the meaning of stream 0: `call` is
// evaluated with this DefaultStream in `meaning`.
#define CUSPAN_EXPORT_TWINS(function, suffix, parameters, call)                    \
  CUSPAN_EXPORT cudaError_t function parameters {                                  \
    [[maybe_unused]] constexpr auto meaning = ::cuspan::DefaultStream::kLegacy;    \
    return call;                                                                   \
  }                                                                                \
  CUSPAN_EXPORT cudaError_t function##suffix parameters {                          \
    [[maybe_unused]] constexpr auto meaning = ::cuspan::DefaultStream::kPerThread; \
    return call;                                                                   \
  }

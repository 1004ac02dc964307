// The CUDA runtime's functions as its own header declares them, in both forms
// where there are two, and how this library defines them.
#pragma once

// Makes the header declare each function that takes a stream under its plain
// name and under that of its twin (suffix _ptds or _ptsz), which programs
// compiled with --default-stream per-thread call.
#define __CUDA_API_VERSION_INTERNAL
#include <cuda_profiler_api.h>
#include <cuda_runtime_api.h>

// In front of every definition that programs call.
#define CUSPAN_EXPORT extern "C" __attribute__((visibility("default")))

// Defines FUNCTION and FUNCTION##SUFFIX, which differ in what stream 0 is:
// `call` is evaluated with the DefaultStream in `meaning`.
#define CUSPAN_EXPORT_TWINS(function, suffix, parameters, call)                    \
  CUSPAN_EXPORT cudaError_t function parameters {                                  \
    [[maybe_unused]] constexpr auto meaning = ::cuspan::DefaultStream::kLegacy;    \
    return call;                                                                   \
  }                                                                                \
  CUSPAN_EXPORT cudaError_t function##suffix parameters {                          \
    [[maybe_unused]] constexpr auto meaning = ::cuspan::DefaultStream::kPerThread; \
    return call;                                                                   \
  }

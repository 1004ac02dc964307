// Error handling of CUDA calls in the benchmarks' programs.
#pragma once

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

inline void Check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(2);
}
#define CHECK(call) Check(call, #call)

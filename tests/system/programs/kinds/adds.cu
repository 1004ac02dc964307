// A library using a device, with its own kernels and variables.
#include "adds.h"

#include <cuda_runtime.h>

#include <cstdio>
#include <vector>

namespace {

__constant__ int seven;

template <typename T>
__global__ void Add(T* values, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) values[i] += seven;
}

}  // namespace

extern "C" int AddsOnDevice(int count) {
  const int value = 7;
  std::vector<int> values(count);
  for (int i = 0; i < count; ++i) values[i] = i;
  int* device = nullptr;
  cudaError_t error = cudaMemcpyToSymbol(seven, &value, sizeof value);
  if (error == cudaSuccess) error = cudaMalloc(&device, count * sizeof(int));
  if (error == cudaSuccess)
    error = cudaMemcpy(device, values.data(), count * sizeof(int), cudaMemcpyHostToDevice);
  if (error == cudaSuccess) {
    Add<<<(count + 127) / 128, 128>>>(device, count);
    error = cudaGetLastError();
  }
  if (error == cudaSuccess)
    error = cudaMemcpy(values.data(), device, count * sizeof(int), cudaMemcpyDeviceToHost);
  cudaFree(device);
  if (error != cudaSuccess) {
    std::printf("CUDA error %d (%s)\n", static_cast<int>(error), cudaGetErrorName(error));
    return 0;
  }
  for (int i = 0; i < count; ++i)
    if (values[i] != i + 7) return 0;
  return 1;
}

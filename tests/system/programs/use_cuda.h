// A little work on a device, with a result for the caller to check.
#pragma once

#include <cuda_runtime.h>

__global__ void AddSeven(int* value) { *value += 7; }

// Computes value + 7 on the current device; returns the first error.
inline cudaError_t AddSevenOnDevice(int value, int* result) {
  int* device_value = nullptr;
  cudaError_t error = cudaMalloc(&device_value, sizeof(int));
  if (error != cudaSuccess) return error;
  error = cudaMemcpy(device_value, &value, sizeof(int), cudaMemcpyHostToDevice);
  if (error == cudaSuccess) {
    AddSeven<<<1, 1>>>(device_value);
    error = cudaGetLastError();
  }
  if (error == cudaSuccess)
    error = cudaMemcpy(result, device_value, sizeof(int), cudaMemcpyDeviceToHost);
  const cudaError_t freed = cudaFree(device_value);
  return error != cudaSuccess ? error : freed;
}

// True if the current device computes the right result.
inline bool DeviceWorks(int value = 35) {
  int result = 0;
  return AddSevenOnDevice(value, &result) == cudaSuccess && result == value + 7;
}

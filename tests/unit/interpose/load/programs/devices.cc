// A program that calls the CUDA runtime and has no device code of its own.
#include <cuda_runtime.h>

#include <cstdio>

int main() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || cudaSetDevice(0) != cudaSuccess) return 1;
  std::printf("app: %d devices\n", count);
  return 0;
}

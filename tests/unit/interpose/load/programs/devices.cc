// A program with calls of the CUDA runtime, but no device code.
#include <cuda_runtime.h>

#include <cstdio>

int main() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || cudaSetDevice(0) != cudaSuccess) return 1;
  std::printf("app: %d devices\n", count);
  return 0;
}

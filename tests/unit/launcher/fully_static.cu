// Linked with the static C library, so nothing can be loaded into it. Prints the error of its first
// call and exits with status 1 on error.
#include <cstdio>

__global__ void Nothing() {}

int main() {
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, 4);
  std::printf("%d\n", error);
  if (error != cudaSuccess) return 1;
  Nothing<<<1, 1>>>();
  return cudaDeviceSynchronize() == cudaSuccess ? 0 : 1;
}

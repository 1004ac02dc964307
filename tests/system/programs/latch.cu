// A kernel waits for the host to write managed memory, not allowed while the kernel runs. It ends
// only if the device reads the host's own memory.
#include <cstdio>

#include "use_cuda.h"

__global__ void WaitFor(volatile int* latch) {
  while (*latch == 0) {
  }
}

int main() {
  int* latch = nullptr;
  if (cudaMallocManaged(&latch, sizeof *latch) != cudaSuccess) return 1;
  *latch = 0;
  WaitFor<<<1, 1>>>(latch);
  *static_cast<volatile int*>(latch) = 1;
  const cudaError_t error = cudaDeviceSynchronize();
  std::printf("%s\n", cudaGetErrorName(error));
  return error == cudaSuccess ? 0 : 1;
}

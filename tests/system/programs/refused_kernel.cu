// Launches a kernel unsupported by the software GPU, twice, and continues.

#include <cstdio>

#include "use_cuda.h"

// Multisample textures come from graphics libraries; CUDA cannot create one.
__global__ void Refused(int* value) {
  if (*value == 1)
    asm volatile(
        "{ .reg .b64 x; .reg .b32 a<4>, u; mov.b64 x, 1; mov.b32 u, 0;"
        "  tex.2dms.v4.s32.s32 {a0, a1, a2, a3}, [x, {u, u, u, u}]; }" ::
            : "memory");
  *value = 1;
}

int main() {
  if (!DeviceWorks()) return 3;
  std::printf("before\n");
  int* value = nullptr;
  if (cudaMalloc(&value, sizeof(int)) != cudaSuccess) return 3;
  for (int i = 0; i < 2; ++i) {
    // CUDA may report the error at the launch, or later.
    Refused<<<1, 1>>>(value);
    const cudaError_t at_launch = cudaGetLastError();
    const cudaError_t later = cudaDeviceSynchronize();
    std::printf("%s\n", cudaGetErrorName(at_launch != cudaSuccess ? at_launch : later));
    cudaGetLastError();
  }
  return DeviceWorks() ? 0 : 3;
}

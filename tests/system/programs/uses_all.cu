// Does a little work on each device; prints "right" if all results are.
#include <cstdio>

#include "use_cuda.h"

int main() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) return 1;
  for (int device = 0; device < count; ++device) {
    int result = 0;
    if (cudaSetDevice(device) != cudaSuccess) return 1;
    const cudaError_t error = AddSevenOnDevice(device, &result);
    if (error == cudaSuccess && result == device + 7) continue;
    std::printf("device %d: %s, %d\n", device, cudaGetErrorName(error), result);
    return 1;
  }
  std::printf("right\n");
  return 0;
}

// Calls functions unsupported by all remote devices, twice, and continues.

#include <cstdio>

#include "use_cuda.h"

int main() {
  if (!DeviceWorks()) return 3;
  std::printf("before\n");
  for (int i = 0; i < 2; ++i)
    std::printf("%s\n", cudaGetErrorName(cudaGraphicsUnmapResources(0, nullptr, nullptr)));
  std::printf("%s\n", cudaGetErrorName(cudaGetLastError()));
  return DeviceWorks() ? 0 : 3;
}

// What it takes from a program's first CUDA call to the end of the first kernel of its device code,
// which is as large as that of a library: 40 MiB, most of it an initialized table.
#include <cuda_runtime.h>

#include <cstddef>

#include "bench/calls/measure.h"
#include "bench/common/check_cuda.h"

namespace {

constexpr std::size_t kTable = 40 << 20;

__device__ unsigned char table[kTable] = {1};

__global__ void Look(unsigned char* out, std::size_t place) { *out = table[place]; }

}  // namespace

int main() {
  const auto start = Clock::now();
  unsigned char* out = nullptr;
  CHECK(cudaMalloc(&out, 1));
  Look<<<1, 1>>>(out, 0);
  unsigned char seen = 0;
  CHECK(cudaMemcpy(&seen, out, 1, cudaMemcpyDeviceToHost));
  Measured first;
  first.round_trip = Microseconds(Clock::now() - start);
  if (seen != 1) {
    std::fprintf(stderr, "the table begins with %d instead of 1\n", seen);
    return 2;
  }
  Print("first_kernel_of_40_MiB", 1, 1, first);
  return 0;
}

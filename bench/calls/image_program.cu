// Time from a program's first CUDA call to the end of its first kernel. Its device code is as large
// as a library's: 40 MiB, mostly an initialized table.
#include <cuda_runtime.h>

#include <cstddef>

#include "bench/calls/measure.h"
#include "bench/common/check_cuda.h"

namespace {

// Unit: words. nvcc writes each element separately, and needs almost twice the time for bytes.
constexpr std::size_t kTable = (40 << 20) / sizeof(unsigned long long);

__device__ unsigned long long table[kTable] = {1};

__global__ void Look(unsigned long long* out, std::size_t place) { *out = table[place]; }

}  // namespace

int main() {
  const auto start = Clock::now();
  unsigned long long* out = nullptr;
  CHECK(cudaMalloc(&out, sizeof *out));
  Look<<<1, 1>>>(out, 0);
  unsigned long long seen = 0;
  CHECK(cudaMemcpy(&seen, out, sizeof seen, cudaMemcpyDeviceToHost));
  Measured first;
  first.round_trip = Microseconds(Clock::now() - start);
  if (seen != 1) {
    std::fprintf(stderr, "the table begins with %llu instead of 1\n", seen);
    return 2;
  }
  Print("first_kernel_of_40_MiB", 1, 1, first);
  return 0;
}

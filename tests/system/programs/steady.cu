// steady STEPS: a program with a little work per step: each step sends some bytes, has a kernel
// change them, copies them back, checks them, and sleeps. Prints the total seconds.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "check.h"

__global__ void Add(unsigned* values, unsigned count, unsigned more) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) values[i] += more;
}

int main(int argc, char** argv) {
  const unsigned steps = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 100;
  constexpr unsigned kCount = 16 * 1024;
  std::vector<unsigned> values(kCount), back(kCount);
  unsigned* device = nullptr;
  CHECK(cudaMalloc(&device, kCount * sizeof(unsigned)));
  const auto start = std::chrono::steady_clock::now();
  for (unsigned step = 0; step < steps; ++step) {
    for (unsigned i = 0; i < kCount; ++i) values[i] = step * i;
    CHECK(cudaMemcpy(device, values.data(), kCount * sizeof(unsigned), cudaMemcpyHostToDevice));
    Add<<<(kCount + 255) / 256, 256>>>(device, kCount, step);
    CHECK(cudaMemcpy(back.data(), device, kCount * sizeof(unsigned), cudaMemcpyDeviceToHost));
    for (unsigned i = 0; i < kCount; ++i) {
      if (back[i] == step * i + step) continue;
      std::fprintf(stderr, "steady: step %u, place %u: %u\n", step, i, back[i]);
      return 1;
    }
    usleep(10'000);
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::printf("%.3f\n", took.count());
  return 0;
}

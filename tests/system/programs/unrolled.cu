// unrolled [once]: launches a kernel with some 1700 instructions without branches, again and again
// until the end of its input. Checks that the results of all launches are equal to the bit. "once":
// launches a kernel of 3700 instructions, once. Prints a line per launch.
#include <poll.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

#include "check.h"

// Eliminates a matrix in the registers of each thread. Element (i, j) of all threads is contiguous.
template <int kSize>
__global__ void Eliminate(const float* input, float* output, int count) {
  const int thread = blockIdx.x * blockDim.x + threadIdx.x;
  if (thread >= count) return;
  float a[kSize][kSize];
#pragma unroll
  for (int i = 0; i < kSize * kSize; ++i) a[i / kSize][i % kSize] = input[i * count + thread];
#pragma unroll
  for (int k = 0; k < kSize; ++k) {
    const float scale = 1.0f / a[k][k];
#pragma unroll
    for (int i = k + 1; i < kSize; ++i) {
      const float factor = a[i][k] * scale;
      a[i][k] = factor;
#pragma unroll
      for (int j = k + 1; j < kSize; ++j) a[i][j] -= factor * a[k][j];
    }
  }
#pragma unroll
  for (int i = 0; i < kSize * kSize; ++i) output[i * count + thread] = a[i / kSize][i % kSize];
}

template <int kSize>
int Run(bool once) {
  constexpr int kCount = 1000;
  constexpr int kFloats = kSize * kSize * kCount;
  std::vector<float> input(kFloats), first(kFloats), output(kFloats);
  for (int i = 0; i < kFloats; ++i) {
    const int element = i / kCount;
    input[i] =
        (i * 7919LL % 2001) * 1e-3f - 1.0f + (element / kSize == element % kSize ? 20.0f : 0.0f);
  }
  float *on_device = nullptr, *result = nullptr;
  CHECK(cudaMalloc(&on_device, kFloats * sizeof(float)));
  CHECK(cudaMalloc(&result, kFloats * sizeof(float)));
  CHECK(cudaMemcpy(on_device, input.data(), kFloats * sizeof(float), cudaMemcpyHostToDevice));
  for (int launch = 1;; ++launch) {
    CHECK(cudaMemset(result, 0xff, kFloats * sizeof(float)));
    Eliminate<kSize><<<(kCount + 127) / 128, 128>>>(on_device, result, kCount);
    CHECK(cudaMemcpy(output.data(), result, kFloats * sizeof(float), cudaMemcpyDeviceToHost));
    if (launch == 1) {
      first = output;
      // The product of the factors must be the matrix; this checks its last element.
      double product = 0;
      for (int k = 0; k < kSize; ++k) {
        const double lower =
            k == kSize - 1 ? 1 : first[((kSize - 1) * kSize + k) * kCount + kCount - 1];
        product += lower * first[(k * kSize + kSize - 1) * kCount + kCount - 1];
      }
      if (!(std::fabs(product - input[kFloats - 1]) < 1e-4)) {
        std::printf("%g, not %g\n", product, input[kFloats - 1]);
        return 1;
      }
    }
    if (std::memcmp(first.data(), output.data(), kFloats * sizeof(float)) != 0) {
      std::printf("launch %d has other results\n", launch);
      return 1;
    }
    std::printf("launch %d\n", launch);
    std::fflush(stdout);
    pollfd order{STDIN_FILENO, POLLIN, 0};
    // The pause between launches leaves the processor to others.
    if (once || poll(&order, 1, 20) == 1) return 0;
  }
}

int main(int argc, char** argv) {
  const bool once = argc == 2 && std::strcmp(argv[1], "once") == 0;
  return once ? Run<16>(true) : Run<12>(false);
}

// Adds two vectors, each device a slice of them.
//
//   vector_add [ELEMENTS]
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "check.h"

namespace {

__global__ void Add(const float* a, const float* b, float* sum, size_t count) {
  const size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) sum[i] = a[i] + b[i];
}

// Adds one slice on the current device.
void AddSlice(const float* a, const float* b, float* sum, size_t count) {
  const size_t bytes = count * sizeof(float);
  float* device_a = nullptr;
  float* device_b = nullptr;
  float* device_sum = nullptr;
  CHECK(cudaMalloc(&device_a, bytes));
  CHECK(cudaMalloc(&device_b, bytes));
  CHECK(cudaMalloc(&device_sum, bytes));
  CHECK(cudaMemcpy(device_a, a, bytes, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(device_b, b, bytes, cudaMemcpyHostToDevice));

  constexpr unsigned kThreads = 256;
  const auto blocks = static_cast<unsigned>((count + kThreads - 1) / kThreads);
  Add<<<blocks, kThreads>>>(device_a, device_b, device_sum, count);
  CHECK_LAUNCH();

  CHECK(cudaMemcpy(sum, device_sum, bytes, cudaMemcpyDeviceToHost));
  CHECK(cudaFree(device_sum));
  CHECK(cudaFree(device_b));
  CHECK(cudaFree(device_a));
}

}  // namespace

int main(int argc, char** argv) {
  const size_t count = NumberArgument(argc, argv, 1, 1 << 20, 1, 1L << 30);
  const int devices = DeviceCount();

  std::vector<float> a(count);
  std::vector<float> b(count);
  std::vector<float> sum(count, -1.0f);
  for (size_t i = 0; i < count; ++i) {
    a[i] = static_cast<float>(i % 1009) * 0.5f;
    b[i] = static_cast<float>(i % 2003) * 0.25f;
  }

  const size_t slice = (count + devices - 1) / devices;
  for (int device = 0; device < devices; ++device) {
    const size_t begin = std::min(count, slice * device);
    const size_t end = std::min(count, begin + slice);
    if (begin == end) continue;
    CHECK(cudaSetDevice(device));
    AddSlice(&a[begin], &b[begin], &sum[begin], end - begin);
  }

  int failures = 0;
  for (size_t i = 0; i < count && failures < 5; ++i) {
    // A single float addition is correctly rounded on both sides, so the results are equal.
    EXPECT(sum[i] == a[i] + b[i], "element %zu is %g", i, sum[i]);
  }
  std::printf("vector_add: %zu elements on %d %s: %s\n", count, devices, Devices(devices),
              Verdict(failures));
  return ExitStatus(failures);
}

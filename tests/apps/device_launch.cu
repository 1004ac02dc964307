// Kernels launching kernels (compiled with -rdc=true): recursion, streams in order, a tail launch
// after all other work, arguments of several sizes, a refused launch, and code in a second file.
//
//   device_launch [LEVELS]
#include <cstdio>
#include <cstring>
#include <vector>

#include "check.h"
#include "device_launch/elsewhere.h"

namespace {

int failures = 0;

struct Wide {
  char tag;
  double factor;
  int add[5];
};

// Same names as in the other file, with other meanings.
__constant__ int own_table[2] = {1, 2};
__device__ __noinline__ int Own(int number) { return own_table[number & 1]; }

__global__ void BothOwn(int* out) {
  out[threadIdx.x] =
      Own(static_cast<int>(threadIdx.x)) + OwnElsewhere(static_cast<int>(threadIdx.x));
}

// Each grid appends its number, so `order` holds the numbers in the order of execution.
__device__ int order_count;
__device__ int order[64];

__global__ void Append(int number) { order[atomicAdd(&order_count, 1)] = number; }

// Each block halves its range until it is small, then fills it.
__global__ void Split(int* data, int count, int level) {
  if (threadIdx.x != 0) return;
  if (level == 0 || count < 2) {
    for (int i = 0; i < count; ++i) data[i] = data[i] * 2 + OneAtLevelZero(level);
    return;
  }
  const int half = count / 2;
  cudaStream_t one = nullptr, other = nullptr;
  cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
  Split<<<1, 32, 0, one>>>(data, half, level - 1);
  Split<<<1, 32, 0, other>>>(data + half, count - half, level - 1);
  cudaStreamDestroy(one);
  cudaStreamDestroy(other);
}

__global__ void InOrder() {
  Append<<<1, 1, 0, cudaStreamTailLaunch>>>(4);
  Append<<<1, 1>>>(1);
  Append<<<1, 1>>>(2);
  Append<<<1, 1>>>(3);
}

// A grid ends after its children: the next work in the host's stream comes last.
__global__ void Nested(int depth) {
  if (depth == 0)
    Append<<<1, 1>>>(7);
  else
    Nested<<<1, 1>>>(depth - 1);
}

__global__ void UseWide(Wide wide, double* out) {
  double sum = 0;
  for (int i = 0; i < 5; ++i) sum += wide.add[i];
  out[blockIdx.x * blockDim.x + threadIdx.x] = wide.tag * wide.factor + sum + blockDim.x;
}

__global__ void LaunchWide(double* out) {
  Wide wide{'a', 0.5, {1, 2, 3, 4, 5}};
  UseWide<<<2, 3>>>(wide, out);
}

__global__ void TooLarge(int* error) {
  Append<<<1, 4096>>>(9);
  error[0] = static_cast<int>(cudaGetLastError());
  error[1] = static_cast<int>(cudaGetLastError());
}

// The device runtime returns the same texts as the host's.
__global__ void Texts(char* out) {
  const char* const text = cudaGetErrorString(cudaErrorInvalidValue);
  for (int i = 0; i < 64 && (i == 0 || text[i - 1] != 0); ++i) out[i] = text[i];
}

// Each child adds to the count left by earlier launches.
__global__ void CountChild(int* count) { ++*count; }
__global__ void CountParent(int* count) { CountChild<<<1, 1>>>(count); }

__global__ void EveryThread(int* data) {
  AddElsewhere<<<1, 1>>>(data + blockIdx.x * blockDim.x + threadIdx.x, threadIdx.x);
}

// Copies and memsets are ordered too.
__global__ void CopyBetween(int* data) {
  cudaMemsetAsync(data, 0, 4 * sizeof(int), nullptr);
  AddElsewhere<<<1, 1>>>(data, 5);
  cudaMemcpyAsync(data + 4, data, 4 * sizeof(int), cudaMemcpyDeviceToDevice, nullptr);
  AddElsewhere<<<1, 1>>>(data, 5);
}

void CheckOrder(const std::vector<int>& expected) {
  int count = 0;
  std::vector<int> seen(64);
  CHECK(cudaMemcpyFromSymbol(&count, order_count, sizeof count));
  CHECK(cudaMemcpyFromSymbol(seen.data(), order, 64 * sizeof(int)));
  EXPECT(count == static_cast<int>(expected.size()), "%d grids ran, not %zu", count,
         expected.size());
  for (std::size_t i = 0; i < expected.size() && i < seen.size(); ++i)
    EXPECT(seen[i] == expected[i], "grid %d ran at place %zu instead of %d", seen[i], i,
           expected[i]);
  count = 0;
  CHECK(cudaMemcpyToSymbol(order_count, &count, sizeof count));
}

}  // namespace

int main(int argc, char** argv) {
  const int levels = static_cast<int>(NumberArgument(argc, argv, 1, 5, 1, 10));
  DeviceCount();
  constexpr int kCount = 1000;
  std::vector<int> host(kCount);
  for (int i = 0; i < kCount; ++i) host[i] = i;
  int* data = nullptr;
  CHECK(cudaMalloc(reinterpret_cast<void**>(&data), kCount * sizeof(int)));
  CHECK(cudaMemcpy(data, host.data(), kCount * sizeof(int), cudaMemcpyHostToDevice));
  Split<<<1, 32>>>(data, kCount, levels);
  CHECK_LAUNCH();
  CHECK(cudaMemcpy(host.data(), data, kCount * sizeof(int), cudaMemcpyDeviceToHost));
  for (int i = 0; i < kCount; ++i) EXPECT(host[i] / 2 == i, "element %d is %d", i, host[i]);

  InOrder<<<1, 1>>>();
  CHECK_LAUNCH();
  CHECK(cudaDeviceSynchronize());
  CheckOrder({1, 2, 3, 4});
  Nested<<<1, 1>>>(4);
  CHECK_LAUNCH();
  Append<<<1, 1>>>(8);
  CHECK_LAUNCH();
  CHECK(cudaDeviceSynchronize());
  CheckOrder({7, 8});

  double* numbers = nullptr;
  CHECK(cudaMalloc(reinterpret_cast<void**>(&numbers), 6 * sizeof(double)));
  LaunchWide<<<1, 1>>>(numbers);
  CHECK_LAUNCH();
  double got[6] = {};
  CHECK(cudaMemcpy(got, numbers, sizeof got, cudaMemcpyDeviceToHost));
  for (double value : got) EXPECT(value == 'a' * 0.5 + 15 + 3, "%f", value);

  TooLarge<<<1, 1>>>(data);
  CHECK_LAUNCH();
  CHECK(cudaMemcpy(host.data(), data, 2 * sizeof(int), cudaMemcpyDeviceToHost));
  EXPECT(host[0] != cudaSuccess, "a block of 4096 threads was launched");
  EXPECT(host[1] == cudaSuccess, "the error stayed: %d", host[1]);
  CheckOrder({});

  CHECK(cudaMemset(data, 0, kCount * sizeof(int)));
  EveryThread<<<7, 100>>>(data);
  CHECK_LAUNCH();
  CHECK(cudaMemcpy(host.data(), data, kCount * sizeof(int), cudaMemcpyDeviceToHost));
  for (int i = 0; i < 700; ++i)
    EXPECT(host[i] == i % 100 + kElsewhere, "child %d wrote %d", i, host[i]);
  CopyBetween<<<1, 1>>>(data);
  CHECK_LAUNCH();
  CHECK(cudaMemcpy(host.data(), data, 8 * sizeof(int), cudaMemcpyDeviceToHost));
  EXPECT(host[0] == 30 && host[4] == 15 && host[7] == 0, "%d %d %d", host[0], host[4], host[7]);
  BothOwn<<<1, 4>>>(data);
  CHECK_LAUNCH();
  CHECK(cudaMemcpy(host.data(), data, 4 * sizeof(int), cudaMemcpyDeviceToHost));
  for (int i = 0; i < 4; ++i) EXPECT(host[i] == 31 + i % 2 * 11, "thread %d got %d", i, host[i]);
  // Launched faster than executed by the device.
  CHECK(cudaMemset(data, 0, sizeof(int)));
  constexpr int kMany = 2000;
  for (int i = 0; i < kMany; ++i) CountParent<<<1, 1>>>(data);
  CHECK_LAUNCH();
  CHECK(cudaMemcpy(host.data(), data, sizeof(int), cudaMemcpyDeviceToHost));
  EXPECT(host[0] == kMany, "%d of %d children ran", host[0], kMany);
  char text[64] = {};
  Texts<<<1, 1>>>(reinterpret_cast<char*>(data));
  CHECK_LAUNCH();
  CHECK(cudaMemcpy(text, data, sizeof text, cudaMemcpyDeviceToHost));
  EXPECT(std::strcmp(text, cudaGetErrorString(cudaErrorInvalidValue)) == 0, "'%.63s'", text);
  CHECK(cudaFree(numbers));
  CHECK(cudaFree(data));
  std::printf("device_launch: %d levels: %s\n", levels, Verdict(failures));
  return ExitStatus(failures);
}

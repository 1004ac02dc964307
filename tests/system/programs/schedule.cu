// schedule: two kernels with races hidden by a GPU, since its warps advance at about the same pace.
// In one, a block adds twice in the same shared memory without a barrier in between. In the other,
// several warps add to the same elements. Prints the number of threads with both sums right, and
// the number of elements with the value of exactly one warp.
#include <cstdio>
#include <vector>

#include "check.h"

constexpr int kThreads = 256, kWarps = kThreads / 32;

__device__ int Sum(int value, int* of_warps) {
  for (int step = 16; step != 0; step /= 2) value += __shfl_xor_sync(~0u, value, step);
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = value;
  __syncthreads();
  int sum = 0;
  for (int i = 0; i < kWarps; ++i) sum += of_warps[i];
  return sum;
}

__global__ void AddUpTwice(int* sums) {
  __shared__ int of_warps[kWarps];
  const int first = Sum(1, of_warps);
  const int second = Sum(2, of_warps);
  sums[2 * threadIdx.x] = first;
  sums[2 * threadIdx.x + 1] = second;
}

__global__ void AddToTheSame(int* elements) { elements[threadIdx.x % 32] += 1 << threadIdx.x / 32; }

int main() {
  int *sums = nullptr, *elements = nullptr;
  CHECK(cudaMalloc(&sums, 2 * kThreads * sizeof(int)));
  CHECK(cudaMalloc(&elements, 32 * sizeof(int)));
  CHECK(cudaMemset(elements, 0, 32 * sizeof(int)));
  AddUpTwice<<<1, kThreads>>>(sums);
  CHECK(cudaGetLastError());
  AddToTheSame<<<1, kThreads>>>(elements);
  CHECK(cudaGetLastError());
  std::vector<int> found(2 * kThreads), added(32);
  CHECK(cudaMemcpy(found.data(), sums, found.size() * sizeof(int), cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(added.data(), elements, added.size() * sizeof(int), cudaMemcpyDeviceToHost));
  int right = 0, of_one = 0;
  for (int i = 0; i < kThreads; ++i)
    right += found[2 * i] == kThreads && found[2 * i + 1] == 2 * kThreads;
  for (const int value : added) of_one += value > 0 && (value & (value - 1)) == 0;
  std::printf("%d of %d threads right\n%d of 32 elements of one warp\n", right, kThreads, of_one);
  return 0;
}

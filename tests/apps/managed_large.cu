// Managed memory of several blocks, possibly larger than the device. Kernels and the program change
// all of it alternately, and a freed block makes room for the next.
//
//   managed_large [MIB [BLOCKS]]
#include <vector>

#include "check.h"

namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kBlocks = 512;

__host__ __device__ unsigned Mixed(unsigned value) { return value * 1664525U + 1013904223U; }

__global__ void Mix(unsigned* values, size_t count) {
  const size_t step = size_t{gridDim.x} * blockDim.x;
  for (size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step)
    values[i] = Mixed(values[i]);
}
__global__ void Sum(const unsigned* values, size_t count, unsigned long long* sum) {
  const size_t step = size_t{gridDim.x} * blockDim.x;
  for (size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step)
    atomicAdd(sum, static_cast<unsigned long long>(values[i]));
}

unsigned Initial(size_t block, size_t i) { return static_cast<unsigned>(i * 2654435761U + block); }

int CheckBlock(const unsigned* values, size_t count, size_t block, unsigned times) {
  int failures = 0;
  size_t wrong = 0;
  unsigned long long expected = 0;
  for (size_t i = 0; i < count; ++i) {
    unsigned value = Initial(block, i);
    for (unsigned time = 0; time < times; ++time) value = Mixed(value);
    wrong += values[i] != value;
    expected += value;
  }
  EXPECT(wrong == 0, "%zu of %zu values of block %zu", wrong, count, block);
  unsigned long long* sum = nullptr;
  CHECK(cudaMallocManaged(&sum, sizeof *sum));
  *sum = 0;
  Sum<<<kBlocks, kThreads>>>(values, count, sum);
  CHECK_LAUNCH();
  CHECK(cudaDeviceSynchronize());
  EXPECT(*sum == expected, "the kernel's sum of block %zu is %llu, not %llu", block, *sum,
         expected);
  CHECK(cudaFree(sum));
  return failures;
}

}  // namespace

int main(int argc, char** argv) {
  const auto mib = static_cast<size_t>(NumberArgument(argc, argv, 1, 16, 1, 1 << 20));
  const auto blocks = static_cast<size_t>(NumberArgument(argc, argv, 2, 3, 1, 1 << 10));
  const size_t count = (mib << 20) / sizeof(unsigned);
  DeviceCount();
  int failures = 0;
  std::vector<unsigned*> all(blocks, nullptr);
  for (size_t block = 0; block < blocks; ++block) {
    CHECK(cudaMallocManaged(&all[block], count * sizeof(unsigned)));
    for (size_t i = 0; i < count; ++i) all[block][i] = Initial(block, i);
  }
  for (unsigned* values : all) Mix<<<kBlocks, kThreads>>>(values, count);
  CHECK_LAUNCH();
  CHECK(cudaDeviceSynchronize());
  for (unsigned* values : all)
    for (size_t i = 0; i < count; ++i) values[i] = Mixed(values[i]);
  for (unsigned* values : all) Mix<<<kBlocks, kThreads>>>(values, count);
  CHECK_LAUNCH();
  CHECK(cudaDeviceSynchronize());
  for (size_t block = 0; block < blocks; ++block)
    failures += CheckBlock(all[block], count, block, 3);
  // Device memory is available after the blocks are freed.
  for (unsigned* values : all) CHECK(cudaFree(values));
  unsigned* ordinary = nullptr;
  CHECK(cudaMalloc(&ordinary, count * sizeof(unsigned)));
  unsigned* managed = nullptr;
  CHECK(cudaMallocManaged(&managed, count * sizeof(unsigned)));
  for (size_t i = 0; i < count; ++i) managed[i] = Initial(7, i);
  CHECK(cudaMemcpy(ordinary, managed, count * sizeof(unsigned), cudaMemcpyDefault));
  Mix<<<kBlocks, kThreads>>>(ordinary, count);
  CHECK_LAUNCH();
  CHECK(cudaMemcpy(managed, ordinary, count * sizeof(unsigned), cudaMemcpyDefault));
  failures += CheckBlock(managed, count, 7, 1);
  CHECK(cudaFree(managed));
  CHECK(cudaFree(ordinary));
  std::printf("managed_large: %s\n", failures == 0 ? "PASS" : "FAIL");
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

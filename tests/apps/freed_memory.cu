// Freed memory is reused only after all earlier work using it. Kernels with late writes still run
// when their block is freed. The next allocation must not be affected.
#include "check.h"

namespace {

int failures = 0;

constexpr int kThreads = 256;

// Writes `value` to all of `data`, some time after its start.
__global__ void WriteLate(unsigned* data, std::size_t words, unsigned value, int delay) {
  unsigned waited = 1;
  for (int i = 0; i < delay; ++i) waited = waited * 1664525U + 1013904223U;
  const std::size_t first = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = first; i < words; i += step) data[i] = waited == 0 ? 0 : value;
}

__global__ void CountOthers(const unsigned* data, std::size_t words, unsigned value,
                            unsigned long long* others) {
  const std::size_t first = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
  unsigned long long found = 0;
  for (std::size_t i = first; i < words; i += step) found += data[i] != value;
  if (found != 0) atomicAdd(others, found);
}

enum class How { kFree, kFreeAsync };

// Rounds of: allocate, begin a late write, free at once, allocate the same size, fill it.
void Rounds(std::size_t bytes, int rounds, How how) {
  cudaStream_t late, fill;
  CHECK(cudaStreamCreateWithFlags(&late, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&fill, cudaStreamNonBlocking));
  unsigned long long* others = nullptr;
  CHECK(cudaMalloc(&others, sizeof *others));
  CHECK(cudaMemset(others, 0, sizeof *others));
  CHECK(cudaDeviceSynchronize());
  const std::size_t words = bytes / sizeof(unsigned);
  for (int round = 0; round < rounds; ++round) {
    unsigned* first = nullptr;
    unsigned* second = nullptr;
    CHECK(how == How::kFree ? cudaMalloc(&first, bytes) : cudaMallocAsync(&first, bytes, late));
    WriteLate<<<8, kThreads, 0, late>>>(first, words, 0xBADBADU, 20000);
    CHECK_LAUNCH();
    CHECK(how == How::kFree ? cudaFree(first) : cudaFreeAsync(first, late));
    CHECK(how == How::kFree ? cudaMalloc(&second, bytes) : cudaMallocAsync(&second, bytes, fill));
    WriteLate<<<8, kThreads, 0, fill>>>(second, words, 0x600DU, 0);
    CHECK_LAUNCH();
    CHECK(cudaStreamSynchronize(late));
    CountOthers<<<8, kThreads, 0, fill>>>(second, words, 0x600DU, others);
    CHECK_LAUNCH();
    CHECK(how == How::kFree ? cudaFree(second) : cudaFreeAsync(second, fill));
  }
  unsigned long long found = 0;
  CHECK(cudaStreamSynchronize(fill));
  CHECK(cudaMemcpy(&found, others, sizeof found, cudaMemcpyDeviceToHost));
  EXPECT(found == 0, "%llu words of blocks of %zu bytes were overwritten", found, bytes);
  CHECK(cudaFree(others));
  CHECK(cudaStreamDestroy(late));
  CHECK(cudaStreamDestroy(fill));
}

// All of the device's memory is available again immediately after a free, even with running
// kernels.
void AllOfIt() {
  std::size_t free_bytes = 0, total = 0;
  CHECK(cudaMemGetInfo(&free_bytes, &total));
  const std::size_t bytes = free_bytes / 5 * 3;
  for (int round = 0; round < 3; ++round) {
    unsigned* block = nullptr;
    CHECK(cudaMalloc(&block, bytes));
    WriteLate<<<8, kThreads>>>(block, 1 << 16, 1, 20000);
    CHECK_LAUNCH();
    CHECK(cudaFree(block));
  }
  unsigned* block = nullptr;
  EXPECT(cudaMalloc(&block, 2 * total) == cudaErrorMemoryAllocation,
         "more than there is was given");
  EXPECT(cudaGetLastError() == cudaErrorMemoryAllocation, "the failure was not kept");
}

}  // namespace

int main() {
  DeviceCount();
  for (const How how : {How::kFree, How::kFreeAsync}) {
    Rounds(4096, 300, how);
    Rounds(1 << 20, 100, how);
    Rounds(24 << 20, 8, how);
    Rounds(40 << 20, 4, how);
  }
  AllOfIt();
  std::printf("freed_memory: blocks of 4 KiB to 40 MiB, and most of the device: %s\n",
              Verdict(failures));
  return ExitStatus(failures);
}

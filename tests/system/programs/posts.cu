// Asynchronous calls, and calls with an implicit wait.
//
//   posts loop      10,000 times launches, copies from page-locked memory, memsets, events,
//                   allocations and frees; it waits after every 100
//   posts copy      reads page-locked memory written by a copy, after only a cudaFree
//   posts kernel    the same, written by a kernel
#include <cstdio>
#include <cstring>

#include "check.h"

namespace {

constexpr int kRounds = 10000;
constexpr int kWords = 1024;
constexpr std::size_t kBytes = kWords * sizeof(int);
constexpr long long kSpin = 1 << 20;  // Cycles of the device's clock.

__global__ void Increment(int* value) { ++*value; }

__global__ void FillLate(int* values, int value) {
  const long long begin = clock64();
  while (clock64() - begin < kSpin) {
  }
  values[threadIdx.x] = value;
}

int Loop(int* pinned) {
  cudaStream_t stream;
  cudaEvent_t event;
  int* counter = nullptr;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  CHECK(cudaMalloc(&counter, kBytes));
  CHECK(cudaMemset(counter, 0, sizeof *counter));
  for (int i = 0; i < kRounds; ++i) {
    int* block = nullptr;
    int* pooled = nullptr;
    CHECK(cudaMalloc(&block, kBytes));
    CHECK(cudaMallocAsync(&pooled, kBytes, stream));
    CHECK(cudaMemcpyAsync(block, pinned, kBytes, cudaMemcpyHostToDevice, stream));
    CHECK(cudaMemsetAsync(pooled, 0, kBytes, stream));
    Increment<<<1, 1, 0, stream>>>(counter);
    CHECK_LAUNCH();
    CHECK(cudaEventRecord(event, stream));
    CHECK(cudaStreamWaitEvent(nullptr, event, 0));
    static_cast<void>(cudaEventQuery(event));
    static_cast<void>(cudaGetLastError());
    CHECK(cudaFreeAsync(pooled, stream));
    CHECK(cudaFree(block));
    if (i % 100 == 99) CHECK(cudaStreamSynchronize(stream));
  }
  int count = 0;
  CHECK(cudaMemcpy(&count, counter, sizeof count, cudaMemcpyDeviceToHost));
  return count == kRounds ? 0 : 1;
}

int Read(int* pinned, bool by_copy) {
  int* values = nullptr;
  int* other = nullptr;
  int wrong = 0;
  CHECK(cudaMalloc(&values, kBytes));
  for (int round = 1; round <= 20; ++round) {
    CHECK(cudaMalloc(&other, kBytes));
    FillLate<<<1, kWords>>>(by_copy ? values : pinned, round);
    CHECK_LAUNCH();
    if (by_copy) CHECK(cudaMemcpyAsync(pinned, values, kBytes, cudaMemcpyDeviceToHost, nullptr));
    CHECK(cudaFree(other));
    for (int i = 0; i < kWords; ++i) wrong += static_cast<volatile int*>(pinned)[i] != round;
  }
  return wrong;
}

}  // namespace

int main(int argc, char** argv) {
  const char* mode = argc == 2 ? argv[1] : "";
  const bool loop = std::strcmp(mode, "loop") == 0;
  const bool copy = std::strcmp(mode, "copy") == 0;
  if (!loop && !copy && std::strcmp(mode, "kernel") != 0) {
    std::fprintf(stderr, "usage: %s loop|copy|kernel\n", argv[0]);
    return 2;
  }
  int* pinned = nullptr;
  CHECK(cudaMallocHost(&pinned, kBytes));
  std::memset(pinned, 0, kBytes);
  const int failures = loop ? Loop(pinned) : Read(pinned, copy);
  std::printf("posts %s: %s\n", mode, Verdict(failures));
  return ExitStatus(failures);
}

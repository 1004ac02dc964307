// Compiled with --default-stream per-thread: each host thread has a separate default stream, used
// by every call without a named stream.
//
//   thread_default_streams [THREADS [ROUNDS]]
#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>

#include "check.h"

#ifndef CUDA_API_PER_THREAD_DEFAULT_STREAM
#error "compile with nvcc --default-stream per-thread"
#endif

namespace {

constexpr unsigned kBlock = 128;
constexpr int kCount = 4000;

__constant__ unsigned increments[64];

__global__ void Step(unsigned* values, int count, int row) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) values[i] = values[i] * 3u + increments[row];
}

// A thread's rounds, all in its default stream. No stream is named. Only the last copy and the
// thread's own event synchronise.
int Work(int number, int device, int rounds) {
  CHECK(cudaSetDevice(device));
  unsigned* values = nullptr;
  cudaEvent_t half_way = nullptr;
  CHECK(cudaMalloc(&values, kCount * sizeof(unsigned)));
  CHECK(cudaEventCreate(&half_way));
  CHECK(cudaMemset(values, 0, kCount * sizeof(unsigned)));
  const unsigned increment = number * 17u + 1;
  CHECK(cudaMemcpyToSymbol(increments, &increment, sizeof(unsigned), number * sizeof(unsigned)));
  for (int round = 0; round < rounds; ++round) {
    Step<<<(kCount + kBlock - 1) / kBlock, kBlock>>>(values, kCount, number);
    CHECK_LAUNCH();
    if (round == rounds / 2) CHECK(cudaEventRecord(half_way));
  }
  CHECK(cudaEventSynchronize(half_way));
  std::vector<unsigned> got(kCount);
  CHECK(cudaMemcpy(got.data(), values, kCount * sizeof(unsigned), cudaMemcpyDeviceToHost));

  unsigned expected = 0;
  for (int round = 0; round < rounds; ++round) expected = expected * 3u + increment;
  int failures = 0;
  for (int i = 0; i < kCount && failures < 5; ++i) {
    EXPECT(got[i] == expected, "thread %d, value %d is %u, not %u", number, i, got[i], expected);
  }
  CHECK(cudaStreamQuery(nullptr));  // this thread's stream, drained by the copy
  CHECK(cudaEventDestroy(half_way));
  CHECK(cudaFree(values));
  return failures;
}

// The legacy stream, by its name, still waits for the per-thread stream and the other way round.
int LegacyOrder(int device) {
  CHECK(cudaSetDevice(device));
  unsigned* values = nullptr;
  CHECK(cudaMalloc(&values, kCount * sizeof(unsigned)));
  const unsigned increment = 5;
  CHECK(cudaMemcpyToSymbol(increments, &increment, sizeof(unsigned)));
  CHECK(cudaMemsetAsync(values, 0, kCount * sizeof(unsigned), cudaStreamLegacy));
  const unsigned blocks = (kCount + kBlock - 1) / kBlock;
  for (int round = 0; round < 10; ++round) {
    Step<<<blocks, kBlock>>>(values, kCount, 0);
    CHECK_LAUNCH();
    Step<<<blocks, kBlock, 0, cudaStreamLegacy>>>(values, kCount, 0);
    CHECK_LAUNCH();
  }
  std::vector<unsigned> got(kCount);
  CHECK(cudaMemcpyAsync(got.data(), values, kCount * sizeof(unsigned), cudaMemcpyDeviceToHost,
                        cudaStreamPerThread));
  CHECK(cudaStreamSynchronize(cudaStreamPerThread));
  unsigned expected = 0;
  for (int round = 0; round < 20; ++round) expected = expected * 3u + increment;
  int failures = 0;
  for (int i = 0; i < kCount && failures < 5; ++i) {
    EXPECT(got[i] == expected, "device %d, value %d is %u, not %u", device, i, got[i], expected);
  }
  CHECK(cudaFree(values));
  return failures;
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = static_cast<int>(NumberArgument(argc, argv, 1, 8, 1, 64));
  const int rounds = static_cast<int>(NumberArgument(argc, argv, 2, 40, 1, 100000));
  const int devices = DeviceCount();
  std::atomic<int> failures{0};
  std::vector<std::thread> workers;
  for (int number = 0; number < threads; ++number) {
    workers.emplace_back([&, number] { failures += Work(number, number % devices, rounds); });
  }
  for (std::thread& worker : workers) worker.join();
  for (int device = 0; device < devices; ++device) failures += LegacyOrder(device);
  std::printf("thread_default_streams: %d threads, %d rounds each, on %d %s: %s\n", threads, rounds,
              devices, Devices(devices), Verdict(failures));
  return ExitStatus(failures);
}

// Threads write pinned memory, copy to managed memory and use both in kernels, all at once. Each
// has its own memory and stream.
//
//   managed_threads [ROUNDS]
#include <cstdio>
#include <thread>
#include <vector>

#include "check.h"

namespace {

constexpr int kThreads = 4;
// More than a copy inside its op, and less than a chunk.
constexpr int kCount = 64 << 10;

__global__ void Add(int* to, const int* from, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) to[i] += from[i];
}

int Work(int thread, int rounds) {
  int failures = 0;
  int *written = nullptr, *copied = nullptr;
  CHECK(cudaSetDevice(0));
  CHECK(cudaMallocHost(&written, kCount * sizeof(int)));
  CHECK(cudaMallocManaged(&copied, kCount * sizeof(int)));
  cudaStream_t stream = nullptr;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  std::vector<int> values(kCount);
  for (int round = 0; round < rounds; ++round) {
    for (int i = 0; i < kCount; ++i) {
      written[i] = round + i;
      values[i] = thread - i;
    }
    CHECK(cudaMemcpyAsync(copied, values.data(), kCount * sizeof(int), cudaMemcpyHostToDevice,
                          stream));
    Add<<<kCount / 128, 128, 0, stream>>>(copied, written, kCount);
    CHECK_LAUNCH();
    CHECK(cudaMemcpyAsync(values.data(), copied, kCount * sizeof(int), cudaMemcpyDeviceToHost,
                          stream));
    CHECK(cudaStreamSynchronize(stream));
    int wrong = 0;
    for (int i = 0; i < kCount; ++i) wrong += values[i] != round + thread;
    EXPECT(wrong == 0, "%d values of thread %d are wrong in round %d", wrong, thread, round);
  }
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaFreeHost(written));
  CHECK(cudaFree(copied));
  return failures;
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = static_cast<int>(NumberArgument(argc, argv, 1, 20, 1, 100000));
  DeviceCount();
  std::vector<int> failures(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&failures, i, rounds] { failures[i] = Work(i, rounds); });
  for (std::thread& thread : threads) thread.join();
  int all = 0;
  for (const int some : failures) all += some;
  std::printf("managed_threads: %d threads, %d rounds: %s\n", kThreads, rounds, Verdict(all));
  return ExitStatus(all);
}

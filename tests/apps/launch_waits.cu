// Waits directly after launches, and launches with no wait of their own in between: a wait ends
// after all work before it, and before work of others that goes on.
#include <thread>
#include <vector>

#include "check.h"

namespace {

constexpr int kHabit = 20;  // Launches, each with a wait.

__global__ void Set(int* word, int value) { *word = value; }
__global__ void SetWhenTold(int* word, int value, const volatile int* told) {
  while (*told < value) {
  }
  *word = value;
}

struct Words {
  Words() {
    CHECK(cudaHostAlloc(&found, 64 * sizeof(int), cudaHostAllocMapped));
    CHECK(cudaHostAlloc(&told, sizeof(int), cudaHostAllocMapped));
    for (int i = 0; i < 64; ++i) found[i] = 0;
    *told = 0;
  }
  ~Words() {
    CHECK(cudaFreeHost(found));
    CHECK(cudaFreeHost(told));
  }
  void Tell(int value) { *static_cast<volatile int*>(told) = value; }
  int Found(int word) const { return static_cast<volatile int*>(found)[word]; }

  int* found;  // Written by kernels.
  int* told;   // Read by kernels.
};

struct Streams {
  Streams() {
    for (cudaStream_t& stream : all)
      CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  }
  ~Streams() {
    for (cudaStream_t stream : all) CHECK(cudaStreamDestroy(stream));
  }
  cudaStream_t operator[](int number) const { return all[number]; }

  cudaStream_t all[3];
};

// Launches with waits.
int Begin(Words& words, cudaStream_t stream, int first) {
  int failures = 0;
  for (int i = first; i < first + kHabit; ++i) {
    Set<<<1, 1, 0, stream>>>(words.found, i);
    CHECK(cudaStreamSynchronize(stream));
    EXPECT(words.Found(0) == i, "wait %d found %d", i, words.Found(0));
  }
  return failures;
}

// A launch runs on while the thread waits for others in another stream.
int OneIsLeftRunning() {
  Words words;
  const Streams streams;
  int failures = 0;
  for (int round = 1; round <= 5; ++round) {
    failures += Begin(words, streams[0], 100 * round);
    SetWhenTold<<<1, 1, 0, streams[0]>>>(words.found + 1, round, words.told);
    failures += Begin(words, streams[1], 100 * round + 50);
    EXPECT(words.Found(1) == round - 1, "the kernel ended before it was told: %d", words.Found(1));
    EXPECT(cudaStreamQuery(streams[0]) == cudaErrorNotReady, "its stream is idle");
    words.Tell(round);
    CHECK(cudaStreamSynchronize(streams[0]));
    EXPECT(words.Found(1) == round, "the wait for it found %d", words.Found(1));
    failures += Begin(words, streams[0], 100 * round + 25);
  }
  return failures;
}

// A wait is also for launches and copies of other threads before it, in the same stream.
int OthersUseTheStream() {
  Words words;
  const Streams streams;
  int failures = Begin(words, streams[0], 1);
  for (int round = 1; round <= 20; ++round) {
    Set<<<1, 1, 0, streams[0]>>>(words.found + 1, round);
    std::thread([&] {
      SetWhenTold<<<1, 1, 0, streams[0]>>>(words.found + 2, round, words.told);
      CHECK_LAUNCH();
    }).join();
    std::thread teller([&] {
      CHECK(cudaStreamSynchronize(streams[1]));
      words.Tell(round);
    });
    CHECK(cudaStreamSynchronize(streams[0]));
    EXPECT(words.Found(2) == round, "the wait found %d, not %d", words.Found(2), round);
    teller.join();
    failures += Begin(words, streams[0], 100 * round);
  }
  return failures;
}

// Threads end with launches nobody has waited for.
int ThreadsEnd(int threads) {
  Words words;
  const Streams streams;
  int failures = 0;
  for (int i = 0; i < threads; ++i) {
    std::thread([&] {
      failures += Begin(words, streams[i % 2], 100 * i);
      Set<<<1, 1, 0, streams[2]>>>(words.found + 3, i);
    }).join();
  }
  CHECK(cudaStreamSynchronize(streams[2]));
  EXPECT(words.Found(3) == threads - 1, "the last thread's launch was %d", words.Found(3));
  return failures;
}

// All work of a stream is waited for, whatever comes between a launch and the wait.
int OtherOpsComeBetween() {
  Words words;
  const Streams streams;
  int* memory = nullptr;
  int copied = 0;
  cudaEvent_t event = nullptr;
  CHECK(cudaMalloc(&memory, sizeof(int)));
  CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  int failures = 0;
  for (int i = 1; i <= 200; ++i) {
    failures += Begin(words, streams[0], 100 * i);
    Set<<<1, 1, 0, streams[0]>>>(memory, i);
    if (i % 3 == 0) CHECK(cudaEventRecord(event, streams[0]));
    CHECK(cudaMemcpyAsync(&copied, memory, sizeof copied, cudaMemcpyDeviceToHost, streams[0]));
    CHECK(cudaStreamSynchronize(streams[0]));
    EXPECT(copied == i, "the copy of round %d is %d", i, copied);
    if (i % 3 == 0) CHECK(cudaEventSynchronize(event));
    Set<<<1, 1, 0, streams[0]>>>(words.found + 4, i);
    CHECK(cudaDeviceSynchronize());
    EXPECT(words.Found(4) == i, "the device's wait found %d, not %d", words.Found(4), i);
    CHECK(cudaStreamSynchronize(streams[0]));
  }
  CHECK(cudaEventDestroy(event));
  CHECK(cudaFree(memory));
  return failures;
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = static_cast<int>(NumberArgument(argc, argv, 1, 1500, 1, 100000));
  DeviceCount();
  const int failures =
      OneIsLeftRunning() + OthersUseTheStream() + ThreadsEnd(threads) + OtherOpsComeBetween();
  std::printf("launch_waits: %s\n", failures == 0 ? "PASS" : "FAIL");
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

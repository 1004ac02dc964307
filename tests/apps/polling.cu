// Results of repeated queries of a stream or an event: not ready while work is pending, ready as
// soon as the program can know its end by other means.
#include <atomic>
#include <thread>

#include "check.h"

namespace {

int failures = 0;

__global__ void Increment(int* value) { ++*value; }

__global__ void WaitFor(const volatile int* flag) {
  while (*flag == 0) {
  }
}

// Holds a stream with a host function until released.
struct Hold {
  std::atomic<bool> begun{false};
  std::atomic<bool> over{false};
  void Put(cudaStream_t stream) {
    CHECK(cudaLaunchHostFunc(
        stream,
        [](void* data) {
          auto* const hold = static_cast<Hold*>(data);
          hold->begun = true;
          while (!hold->over) std::this_thread::yield();
        },
        this));
  }
};

// Held during the queries, then ready some time later.
void HeldStream(cudaStream_t stream, cudaStream_t other, int* value) {
  Hold hold;
  hold.Put(stream);
  Increment<<<1, 1, 0, stream>>>(value);
  CHECK_LAUNCH();
  cudaEvent_t event;
  CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  CHECK(cudaEventRecord(event, stream));
  for (int i = 0; i < 1000; ++i) {
    EXPECT(cudaStreamQuery(stream) == cudaErrorNotReady, "a held stream, asked %d times", i);
    EXPECT(cudaEventQuery(event) == cudaErrorNotReady, "an event behind it, asked %d times", i);
  }
  EXPECT(cudaStreamQuery(other) == cudaSuccess, "a stream without work");
  cudaGetLastError();
  hold.over = true;
  cudaError_t state;
  while ((state = cudaStreamQuery(stream)) == cudaErrorNotReady) std::this_thread::yield();
  EXPECT(state == cudaSuccess, "%s", cudaGetErrorName(state));
  EXPECT(cudaEventQuery(event) == cudaSuccess, "the stream is ready, and its event is not");
  int now = 0;
  CHECK(cudaMemcpyAsync(&now, value, sizeof now, cudaMemcpyDeviceToHost, other));
  CHECK(cudaStreamSynchronize(other));
  EXPECT(now == 1, "%d", now);
  CHECK(cudaMemset(value, 0, sizeof *value));
  CHECK(cudaEventDestroy(event));
}

enum class Way {
  kEvent,
  kPolledEvent,
  kDevice,
  kOtherStream,
  kOtherPolledStream,
  kCopy,
  kFunction,
  kLast = kFunction
};
const char* const kNames[] = {"its event",
                              "its event, polled",
                              "the device",
                              "a stream that waited for it",
                              "that stream, polled",
                              "a copy behind it",
                              "a function behind it in another stream"};

// Queried before, so that a reply could be outdated. Then the program learns of the end by other
// means.
void KnownToBeDone(Way way, cudaStream_t stream, cudaStream_t other, int* value) {
  cudaEvent_t event;
  CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  for (int round = 0; round < 50; ++round) {
    Hold hold;
    if (round % 10 == 0) hold.Put(stream);
    for (int i = 0; i < 20; ++i) Increment<<<1, 1, 0, stream>>>(value);
    CHECK_LAUNCH();
    CHECK(cudaEventRecord(event, stream));
    const cudaError_t early = cudaStreamQuery(stream);
    EXPECT(early == cudaErrorNotReady || (early == cudaSuccess && round % 10 != 0), "%s",
           cudaGetErrorName(early));
    hold.over = true;
    int now = 0;
    switch (way) {
      case Way::kEvent:
        CHECK(cudaEventSynchronize(event));
        break;
      case Way::kPolledEvent:
        while (cudaEventQuery(event) == cudaErrorNotReady) std::this_thread::yield();
        break;
      case Way::kDevice:
        CHECK(cudaDeviceSynchronize());
        break;
      case Way::kOtherStream:
        CHECK(cudaStreamWaitEvent(other, event, 0));
        CHECK(cudaStreamSynchronize(other));
        break;
      case Way::kOtherPolledStream:
        CHECK(cudaStreamWaitEvent(other, event, 0));
        while (cudaStreamQuery(other) == cudaErrorNotReady) std::this_thread::yield();
        break;
      case Way::kCopy:
        CHECK(cudaStreamWaitEvent(nullptr, event, 0));
        CHECK(cudaMemcpy(&now, value, sizeof now, cudaMemcpyDeviceToHost));
        break;
      case Way::kFunction: {
        std::atomic<bool> called{false};
        CHECK(cudaStreamWaitEvent(other, event, 0));
        CHECK(cudaLaunchHostFunc(
            other, [](void* data) { *static_cast<std::atomic<bool>*>(data) = true; }, &called));
        while (!called) std::this_thread::yield();
        break;
      }
    }
    const cudaError_t late = cudaStreamQuery(stream);
    EXPECT(late == cudaSuccess, "round %d: %s is done, and the stream is %s", round,
           kNames[static_cast<int>(way)], cudaGetErrorName(late));
    CHECK(cudaStreamSynchronize(other));
  }
  cudaGetLastError();  // Not ready, possibly.
  CHECK(cudaEventDestroy(event));
}

// A wait for a stream does not include later work of the legacy stream, although the stream's next
// work would wait for it.
void LaterLegacyWork(cudaStream_t other, int* value) {
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  int* flag = nullptr;
  CHECK(cudaMalloc(&flag, sizeof *flag));
  const int one = 1;
  const auto release = [&] {
    CHECK(cudaMemcpyAsync(flag, &one, sizeof one, cudaMemcpyHostToDevice, other));
    CHECK(cudaStreamSynchronize(other));
  };
  for (int round = 0; round < 5; ++round) {
    CHECK(cudaMemset(flag, round == 0 ? 1 : 0, sizeof *flag));
    for (int i = 0; i <= round; ++i) Increment<<<1, 1, 0, stream>>>(value);
    WaitFor<<<1, 1>>>(flag);
    CHECK_LAUNCH();
    CHECK(cudaStreamSynchronize(stream));
    // The first round loads the kernel.
    const cudaError_t legacy = cudaStreamQuery(nullptr);
    EXPECT(legacy == cudaErrorNotReady || round == 0, "the legacy stream: %s",
           cudaGetErrorName(legacy));
    cudaGetLastError();
    release();
    CHECK(cudaDeviceSynchronize());
  }
  // A stream destroyed with pending work: all of it is done when the device is.
  int before = 0, after = 0;
  CHECK(cudaMemcpy(&before, value, sizeof before, cudaMemcpyDeviceToHost));
  CHECK(cudaMemset(flag, 0, sizeof *flag));
  CHECK(cudaDeviceSynchronize());
  WaitFor<<<1, 1, 0, stream>>>(flag);
  Increment<<<1, 1, 0, stream>>>(value);
  Increment<<<1, 1>>>(value);
  CHECK_LAUNCH();
  CHECK(cudaStreamDestroy(stream));
  release();
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpyAsync(&after, value, sizeof after, cudaMemcpyDeviceToHost, other));
  CHECK(cudaStreamSynchronize(other));
  EXPECT(after == before + 2, "%d increments of a destroyed stream", after - before);
  CHECK(cudaFree(flag));
}

// One thread queries while another fills the stream and waits for it.
void Together(cudaStream_t stream, int* value) {
  std::atomic<bool> over{false};
  std::atomic<int> wrong{0};
  std::thread asking([&] {
    while (!over) {
      const cudaError_t state = cudaStreamQuery(stream);
      if (state != cudaSuccess && state != cudaErrorNotReady) ++wrong;
    }
  });
  for (int round = 0; round < 200; ++round) {
    for (int i = 0; i < 10; ++i) Increment<<<1, 1, 0, stream>>>(value);
    CHECK_LAUNCH();
    if (round % 2 == 0) CHECK(cudaStreamSynchronize(stream));
    if (round % 2 == 0)
      EXPECT(cudaStreamQuery(stream) == cudaSuccess, "just synchronised, round %d", round);
  }
  over = true;
  asking.join();
  EXPECT(wrong == 0, "%d answers were errors", wrong.load());
  CHECK(cudaStreamSynchronize(stream));
}

}  // namespace

int main() {
  cudaStream_t stream, other;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  int* value = nullptr;
  CHECK(cudaMalloc(&value, sizeof *value));
  // Loads the kernel now: at its first launch, loading may wait for held streams.
  Increment<<<1, 1>>>(value);
  CHECK_LAUNCH();
  CHECK(cudaMemset(value, 0, sizeof *value));
  CHECK(cudaDeviceSynchronize());
  HeldStream(stream, other, value);
  for (cudaStream_t asked : {stream, cudaStreamLegacy, cudaStreamPerThread})
    for (int way = 0; way <= static_cast<int>(Way::kLast); ++way)
      KnownToBeDone(static_cast<Way>(way), asked, other, value);
  LaterLegacyWork(other, value);
  Together(stream, value);
  CHECK(cudaStreamDestroy(stream));
  std::puts(failures == 0 ? "PASS" : "FAIL");
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

// Host functions in a stream's order: they see earlier copies, and later work waits for them.
// Streams do not wait for each other's functions. A callback receives its stream.
//
//   host_functions [rounds]     default 20
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "check.h"

namespace {

constexpr int kCount = 1 << 16;
int failures = 0;

__global__ void Add(int* data, int count, int what) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) data[i] += what;
}

// Data shared by one round's functions.
struct Round {
  cudaStream_t stream;
  int* device;
  int* host;  // Pinned.
  int expected;
  int wrong_before = 0;
  int calls = 0;
  cudaStream_t called_with = nullptr;
  cudaError_t status = cudaErrorUnknown;
};

void CheckAndChange(void* data) {
  auto* round = static_cast<Round*>(data);
  ++round->calls;
  for (int i = 0; i < kCount; ++i)
    if (round->host[i] != round->expected) ++round->wrong_before;
  for (int i = 0; i < kCount; ++i) round->host[i] = 1000 + i;
}

void CUDART_CB Callback(cudaStream_t stream, cudaError_t status, void* data) {
  auto* round = static_cast<Round*>(data);
  ++round->calls;
  round->called_with = stream;
  round->status = status;
}

// Kernel, copy to the host, function reading and changing it, copy back, kernel, callback.
void Order(cudaStream_t stream, int rounds) {
  Round round{};
  round.stream = stream;
  CHECK(cudaMalloc(&round.device, kCount * sizeof(int)));
  CHECK(cudaMallocHost(&round.host, kCount * sizeof(int)));
  for (int i = 0; i < rounds; ++i) {
    round.expected = i + 7;
    round.calls = 0;
    CHECK(cudaMemsetAsync(round.device, 0, kCount * sizeof(int), stream));
    Add<<<(kCount + 255) / 256, 256, 0, stream>>>(round.device, kCount, round.expected);
    CHECK_LAUNCH();
    CHECK(cudaMemcpyAsync(round.host, round.device, kCount * sizeof(int), cudaMemcpyDeviceToHost,
                          stream));
    CHECK(cudaLaunchHostFunc(stream, CheckAndChange, &round));
    CHECK(cudaMemcpyAsync(round.device, round.host, kCount * sizeof(int), cudaMemcpyHostToDevice,
                          stream));
    Add<<<(kCount + 255) / 256, 256, 0, stream>>>(round.device, kCount, 5);
    CHECK_LAUNCH();
    CHECK(cudaStreamAddCallback(stream, Callback, &round, 0));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT(round.calls == 2, "%d functions ran before the stream was done", round.calls);
    EXPECT(round.wrong_before == 0, "a function saw %d elements before their copy",
           round.wrong_before);
    EXPECT(round.called_with == stream, "the callback got another stream");
    EXPECT(round.status == cudaSuccess, "the callback got %s", cudaGetErrorName(round.status));
    std::vector<int> result(kCount);
    CHECK(cudaMemcpy(result.data(), round.device, kCount * sizeof(int), cudaMemcpyDeviceToHost));
    int wrong = 0;
    for (int j = 0; j < kCount; ++j) wrong += result[j] != 1005 + j;
    EXPECT(wrong == 0, "%d elements do not follow the function", wrong);
  }
  CHECK(cudaFree(round.device));
  CHECK(cudaFreeHost(round.host));
}

void Append(void* data) {
  auto* list = static_cast<std::vector<int>*>(data);
  list->push_back(static_cast<int>(list->size()));
}

// Many functions of one stream run one after the other.
void ManyInARow(cudaStream_t stream) {
  std::vector<int> list;
  for (int i = 0; i < 200; ++i) CHECK(cudaLaunchHostFunc(stream, Append, &list));
  CHECK(cudaStreamSynchronize(stream));
  EXPECT(list.size() == 200, "%zu of 200 functions ran", list.size());
}

void WaitFor(void* data) {
  auto* flag = static_cast<std::atomic<bool>*>(data);
  while (!flag->load()) std::this_thread::yield();
}

// While a function blocks its stream, the stream and a later event are not ready, and another
// stream continues.
void Holding() {
  cudaStream_t held = nullptr, free_stream = nullptr;
  cudaEvent_t behind = nullptr;
  CHECK(cudaStreamCreateWithFlags(&held, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&free_stream, cudaStreamNonBlocking));
  CHECK(cudaEventCreate(&behind));
  int* data = nullptr;
  CHECK(cudaMalloc(&data, sizeof(int)));
  std::atomic<bool> flag{false};
  CHECK(cudaLaunchHostFunc(held, WaitFor, &flag));
  CHECK(cudaEventRecord(behind, held));
  CHECK(cudaMemsetAsync(data, 1, sizeof(int), free_stream));
  CHECK(cudaStreamSynchronize(free_stream));
  EXPECT(cudaStreamQuery(held) == cudaErrorNotReady, "a held stream is ready");
  EXPECT(cudaEventQuery(behind) == cudaErrorNotReady, "an event behind a held function is reached");
  static_cast<void>(cudaGetLastError());
  flag.store(true);
  CHECK(cudaEventSynchronize(behind));
  EXPECT(cudaStreamQuery(held) == cudaSuccess, "the stream is not ready after its function");
  CHECK(cudaFree(data));
  CHECK(cudaEventDestroy(behind));
  CHECK(cudaStreamDestroy(held));
  CHECK(cudaStreamDestroy(free_stream));
}

// Functions submitted by threads ended before they run.
void OfThreadsThatEnd() {
  constexpr int kThreads = 8;
  std::atomic<bool> flag{false};
  std::atomic<int> called{0};
  cudaStream_t streams[kThreads];
  std::vector<std::thread> threads;
  for (cudaStream_t& stream : streams) {
    threads.emplace_back([&] {
      CHECK(cudaStreamCreate(&stream));
      CHECK(cudaLaunchHostFunc(stream, WaitFor, &flag));
      CHECK(cudaLaunchHostFunc(
          stream, [](void* data) { ++*static_cast<std::atomic<int>*>(data); }, &called));
    });
    threads.back().join();
  }
  flag.store(true);
  CHECK(cudaDeviceSynchronize());
  EXPECT(called == kThreads, "%d of %d functions ran", called.load(), kThreads);
  for (cudaStream_t stream : streams) CHECK(cudaStreamDestroy(stream));
}

void Refused() {
  EXPECT(cudaStreamAddCallback(nullptr, Callback, nullptr, 1) == cudaErrorInvalidValue,
         "flags that do not exist");
  EXPECT(cudaStreamAddCallback(nullptr, nullptr, nullptr, 0) == cudaErrorInvalidValue,
         "no callback");
  EXPECT(cudaLaunchHostFunc(nullptr, nullptr, nullptr) == cudaErrorInvalidValue, "no function");
  static_cast<void>(cudaGetLastError());
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = static_cast<int>(NumberArgument(argc, argv, 1, 20, 1, 100000));
  DeviceCount();
  cudaStream_t stream = nullptr;
  CHECK(cudaStreamCreate(&stream));
  Order(stream, rounds);
  Order(nullptr, 2);
  ManyInARow(stream);
  Holding();
  OfThreadsThatEnd();
  Refused();
  CHECK(cudaStreamDestroy(stream));
  std::printf("host_functions: %d rounds: %s\n", rounds, Verdict(failures));
  return ExitStatus(failures);
}

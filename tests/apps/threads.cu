// Many host threads using CUDA at once: all make their first call together, some share a device,
// some a buffer, and each has its own streams.
//
//   threads [THREADS [ROUNDS]]
#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>

#include "check.h"

namespace {

constexpr unsigned kBlock = 128;
constexpr int kCount = 3000;  // values of one thread

__global__ void Mix(unsigned* values, int count, unsigned seed, unsigned long long* total) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  values[i] = values[i] * 1664525u + seed;
  atomicAdd(total, 1ull);
}

// Releases the threads of a group together.
class Gate {
 public:
  explicit Gate(int threads) : waiting_for_(threads) {}
  void Pass() {
    --waiting_for_;
    while (waiting_for_ > 0) std::this_thread::yield();
  }

 private:
  std::atomic<int> waiting_for_;
};

// Data shared by the threads of one device.
struct Shared {
  unsigned long long* total;  // on the device: number of values mixed
};

enum class StreamKind { kBlocking, kNonBlocking, kPerThread, kLegacy };
constexpr int kStreamKinds = 4;

// One thread's work: rounds of copy, kernel, copy in its stream, each checked.
int Work(int number, int device, int rounds, const Shared& shared) {
  CHECK(cudaSetDevice(device));
  const auto kind = static_cast<StreamKind>(number % kStreamKinds);
  cudaStream_t stream = nullptr;
  if (kind == StreamKind::kBlocking) CHECK(cudaStreamCreate(&stream));
  if (kind == StreamKind::kNonBlocking) {
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  }
  if (kind == StreamKind::kPerThread) stream = cudaStreamPerThread;
  const bool own_stream = kind == StreamKind::kBlocking || kind == StreamKind::kNonBlocking;

  unsigned* pinned = nullptr;
  unsigned* values = nullptr;
  CHECK(cudaMallocHost(&pinned, kCount * sizeof(unsigned)));
  int failures = 0;
  for (int round = 0; round < rounds; ++round) {
    // Memory is allocated and freed each round: threads allocate while others compute.
    CHECK(cudaMalloc(&values, kCount * sizeof(unsigned)));
    const unsigned seed = number * 1000u + round;
    for (int i = 0; i < kCount; ++i) pinned[i] = i + seed;
    CHECK(
        cudaMemcpyAsync(values, pinned, kCount * sizeof(unsigned), cudaMemcpyHostToDevice, stream));
    Mix<<<(kCount + kBlock - 1) / kBlock, kBlock, 0, stream>>>(values, kCount, seed, shared.total);
    CHECK_LAUNCH();
    CHECK(
        cudaMemcpyAsync(pinned, values, kCount * sizeof(unsigned), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    for (int i = 0; i < kCount && failures < 5; ++i) {
      const unsigned expected = (i + seed) * 1664525u + seed;
      EXPECT(pinned[i] == expected, "thread %d, round %d, value %d is %u, not %u", number, round, i,
             pinned[i], expected);
    }
    CHECK(cudaFree(values));
  }

  int current = -1;
  CHECK(cudaGetDevice(&current));
  EXPECT(current == device, "thread %d finds device %d current, not %d", number, current, device);
  CHECK(cudaFreeHost(pinned));
  if (own_stream) CHECK(cudaStreamDestroy(stream));
  return failures;
}

int RunWorkers(int threads, int devices, int rounds) {
  std::vector<Shared> shared(devices);
  for (int device = 0; device < devices; ++device) {
    CHECK(cudaSetDevice(device));
    CHECK(cudaMalloc(&shared[device].total, sizeof(unsigned long long)));
    CHECK(cudaMemset(shared[device].total, 0, sizeof(unsigned long long)));
    CHECK(cudaDeviceSynchronize());
  }
  std::atomic<int> failures_of_all{0};
  std::vector<std::thread> workers;
  Gate gate(threads);
  for (int number = 0; number < threads; ++number) {
    workers.emplace_back([&, number] {
      gate.Pass();
      failures_of_all += Work(number, number % devices, rounds, shared[number % devices]);
    });
  }
  for (std::thread& worker : workers) worker.join();

  int failures = failures_of_all;
  for (int device = 0; device < devices; ++device) {
    const int workers_here = threads / devices + (device < threads % devices ? 1 : 0);
    const auto expected = static_cast<unsigned long long>(workers_here) * rounds * kCount;
    unsigned long long total = 0;
    CHECK(cudaSetDevice(device));
    CHECK(cudaMemcpy(&total, shared[device].total, sizeof(total), cudaMemcpyDeviceToHost));
    EXPECT(total == expected, "device %d mixed %llu values, not %llu", device, total, expected);
    CHECK(cudaFree(shared[device].total));
  }
  return failures;
}

// All threads' first calls come at the same moment, each on a device of its own choice.
int FirstCallsTogether(int threads) {
  std::atomic<int> failures{0};
  std::vector<int> counts(threads, 0);
  std::vector<std::thread> callers;
  Gate gate(threads);
  for (int number = 0; number < threads; ++number) {
    callers.emplace_back([&, number] {
      gate.Pass();
      CHECK(cudaGetDeviceCount(&counts[number]));
      CHECK(cudaSetDevice(number % counts[number]));
      CHECK(cudaFree(nullptr));
      int device = -1;
      CHECK(cudaGetDevice(&device));
      if (device != number % counts[number]) ++failures;
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (const int count : counts) {
    if (count != counts[0]) ++failures;
  }
  return failures;
}

// A chain over threads: each adds its link in its own stream, after the event of the one before.
int EventChain(int threads) {
  CHECK(cudaSetDevice(0));
  unsigned* values = nullptr;
  unsigned long long* total = nullptr;
  CHECK(cudaMalloc(&values, kCount * sizeof(unsigned)));
  CHECK(cudaMalloc(&total, sizeof(unsigned long long)));
  CHECK(cudaMemset(values, 0, kCount * sizeof(unsigned)));
  CHECK(cudaMemset(total, 0, sizeof(unsigned long long)));
  CHECK(cudaDeviceSynchronize());
  std::vector<cudaStream_t> streams(threads);
  std::vector<cudaEvent_t> events(threads);
  for (int number = 0; number < threads; ++number) {
    CHECK(cudaStreamCreateWithFlags(&streams[number], cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&events[number], cudaEventDisableTiming));
  }

  std::atomic<int> turn{0};
  std::vector<std::thread> links;
  for (int number = 0; number < threads; ++number) {
    links.emplace_back([&, number] {
      while (turn != number) std::this_thread::yield();
      if (number > 0) CHECK(cudaStreamWaitEvent(streams[number], events[number - 1], 0));
      Mix<<<(kCount + kBlock - 1) / kBlock, kBlock, 0, streams[number]>>>(values, kCount,
                                                                          number + 1, total);
      CHECK_LAUNCH();
      CHECK(cudaEventRecord(events[number], streams[number]));
      ++turn;
      // Waits for its own link only now, with the others' work in flight.
      CHECK(cudaEventSynchronize(events[number]));
    });
  }
  for (std::thread& link : links) link.join();

  unsigned expected = 0;
  for (int number = 0; number < threads; ++number) expected = expected * 1664525u + number + 1;
  std::vector<unsigned> got(kCount);
  CHECK(cudaMemcpy(got.data(), values, kCount * sizeof(unsigned), cudaMemcpyDeviceToHost));
  int failures = 0;
  for (int i = 0; i < kCount && failures < 5; ++i) {
    EXPECT(got[i] == expected, "the chain's value %d is %u, not %u", i, got[i], expected);
  }
  for (int number = 0; number < threads; ++number) {
    CHECK(cudaEventDestroy(events[number]));
    CHECK(cudaStreamDestroy(streams[number]));
  }
  CHECK(cudaFree(total));
  CHECK(cudaFree(values));
  return failures;
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = static_cast<int>(NumberArgument(argc, argv, 1, 12, 1, 256));
  const int rounds = static_cast<int>(NumberArgument(argc, argv, 2, 10, 1, 100000));
  int failures = FirstCallsTogether(threads);
  const int devices = DeviceCount();
  failures += RunWorkers(threads, devices, rounds);
  failures += EventChain(threads);
  std::printf("threads: %d threads, %d rounds each, on %d %s: %s\n", threads, rounds, devices,
              Devices(devices), Verdict(failures));
  return ExitStatus(failures);
}

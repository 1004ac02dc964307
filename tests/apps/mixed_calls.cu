// Many calls of many kinds from several threads at once, each with its own streams, events and
// memory. The device counts all launches, and the process must not grow.
//
//   mixed_calls [THREADS [CALLS_OF_EACH_THREAD]]
#include <atomic>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "check.h"

namespace {

std::atomic<int> failures{0};

__global__ void Count(unsigned long long* counter) {
  if (threadIdx.x == 0) atomicAdd(counter, 1ULL);
}

constexpr std::size_t kBytes = 4096;

// Resident memory of this process, in KiB; 0 without /proc.
long ResidentKiB() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind("VmRSS:", 0) == 0) return std::strtol(line.c_str() + 6, nullptr, 10);
  return 0;
}

// One thread's calls, on one device.
class Caller {
 public:
  Caller(int index, int device) : random_(static_cast<unsigned>(index)), device_(device) {
    CHECK(cudaSetDevice(device_));
    for (cudaStream_t& stream : streams_)
      CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (cudaEvent_t& event : events_)
      CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    CHECK(cudaMalloc(&counter_, sizeof *counter_));
    CHECK(cudaMemset(counter_, 0, sizeof *counter_));
    CHECK(cudaMalloc(&data_, kBytes));
    CHECK(cudaMallocHost(&pinned_, kBytes));
    CHECK(cudaDeviceSynchronize());
  }
  ~Caller() {
    for (cudaStream_t stream : streams_) CHECK(cudaStreamDestroy(stream));
    for (cudaEvent_t event : events_) CHECK(cudaEventDestroy(event));
    CHECK(cudaFree(counter_));
    CHECK(cudaFree(data_));
    CHECK(cudaFreeHost(pinned_));
  }
  Caller(const Caller&) = delete;

  void Make(long calls) {
    for (long i = 0; i < calls; ++i) One();
  }
  // True if the device has counted every launch.
  bool AllCounted() {
    unsigned long long counted = 0;
    for (cudaStream_t stream : streams_) CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemcpy(&counted, counter_, sizeof counted, cudaMemcpyDeviceToHost));
    return counted == launches_;
  }

 private:
  void One() {
    const unsigned kind = random_() % 256;
    cudaStream_t stream = streams_[random_() % 2];
    cudaEvent_t event = events_[random_() % 2];
    if (kind < 100) {
      Count<<<1, 32, 0, stream>>>(counter_);
      CHECK_LAUNCH();
      ++launches_;
    } else if (kind < 120) {
      CHECK(cudaMemsetAsync(data_, 7, kBytes, stream));
    } else if (kind < 135) {
      CHECK(cudaMemcpyAsync(data_, pinned_, kBytes, cudaMemcpyHostToDevice, stream));
    } else if (kind < 145) {
      CHECK(cudaMemcpyAsync(pinned_, data_, kBytes, cudaMemcpyDeviceToHost, stream));
    } else if (kind < 165) {
      CHECK(cudaEventRecord(event, stream));
    } else if (kind < 180) {
      CHECK(cudaStreamWaitEvent(stream, event, 0));
    } else if (kind < 195) {
      Ready(cudaEventQuery(event));
    } else if (kind < 205) {
      Ready(cudaStreamQuery(stream));
    } else if (kind < 220) {
      void* block = nullptr;
      CHECK(cudaMalloc(&block, 1 + random_() % 100000));
      CHECK(cudaFree(block));
    } else if (kind < 235) {
      void* block = nullptr;
      CHECK(cudaMallocAsync(&block, 1 + random_() % 100000, stream));
      CHECK(cudaFreeAsync(block, stream));
    } else if (kind < 243) {
      cudaEvent_t made;
      CHECK(cudaEventCreate(&made));
      CHECK(cudaEventRecord(made, stream));
      CHECK(cudaEventDestroy(made));
    } else if (kind < 245) {
      cudaStream_t made;
      CHECK(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
      Count<<<1, 32, 0, made>>>(counter_);
      CHECK_LAUNCH();
      ++launches_;
      // Waits before the destruction, because the last count waits for this thread's own streams
      // only.
      CHECK(cudaStreamSynchronize(made));
      CHECK(cudaStreamDestroy(made));
    } else if (kind < 248) {
      int value = 0;
      CHECK(cudaMemcpy(&value, data_, sizeof value, cudaMemcpyDeviceToHost));
    } else if (kind < 250) {
      CHECK(cudaStreamSynchronize(stream));
    } else {
      int device = -1;
      CHECK(cudaGetDevice(&device));
      if (device != device_) ++failures;
      cudaPointerAttributes attributes;
      CHECK(cudaPointerGetAttributes(&attributes, data_));
      if (attributes.device != device_) ++failures;
    }
  }
  static void Ready(cudaError_t result) {
    if (result != cudaErrorNotReady) CHECK(result);
  }

  std::minstd_rand random_;
  const int device_;
  cudaStream_t streams_[2];
  cudaEvent_t events_[2];
  unsigned long long* counter_ = nullptr;
  char* data_ = nullptr;
  char* pinned_ = nullptr;
  unsigned long long launches_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const int threads = static_cast<int>(NumberArgument(argc, argv, 1, 4, 1, 64));
  const long calls = NumberArgument(argc, argv, 2, 2000, 1, 1000000000);
  const int devices = DeviceCount();
  // All sizes reach their final value in the first part.
  std::atomic<int> settled{0};
  std::atomic<long> resident{0};
  std::vector<std::thread> workers;
  for (int i = 0; i < threads; ++i)
    workers.emplace_back([&, i] {
      Caller caller(i, i % devices);
      caller.Make(calls / 4);
      if (settled.fetch_add(1) + 1 == threads) resident = ResidentKiB();
      caller.Make(calls - calls / 4);
      if (!caller.AllCounted()) ++failures;
    });
  for (std::thread& worker : workers) worker.join();
  const long grown = ResidentKiB() - resident;
  EXPECT(grown < 64 * 1024, "the process grew by %ld KiB", grown);
  std::fprintf(stderr, "resident after a quarter: %ld KiB; grown since: %ld KiB\n", resident.load(),
               grown);
  std::printf("mixed_calls: %d threads, %ld calls each: %s\n", threads, calls,
              Verdict(failures.load()));
  return ExitStatus(failures.load());
}

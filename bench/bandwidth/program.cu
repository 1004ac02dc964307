// Bandwidth of copies. An ordinary CUDA program, run by `cuspan bench bandwidth` in several
// placements. Each argument names one measurement, DIRECTION:MEMORY:BYTES[:DEVICES]. It yields one
// line of output with the GB/s of every repetition:
//   DIRECTION MEMORY BYTES DEVICES GBPS…
// DIRECTION is to-device, from-device, both (simultaneous, the sum of both) or device-to-device
// (from device 0 to 1). MEMORY is pinned or pageable. Several devices copy simultaneously, and the
// result is their sum. A time ends when all bytes have arrived.
//
//   program [--hold] [--repetitions N] [--seconds S] MEASUREMENT…
//   --hold: finally prints "ready" and waits for the end of its input.
//   S limits the time of one measurement; there are at least two repetitions.
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "bench/common/check_cuda.h"

namespace {

using Clock = std::chrono::steady_clock;

int repetitions = 5;
double seconds = 1e9;

// Synchronises the start of several threads.
class Barrier {
 public:
  explicit Barrier(int threads) : threads_(threads) {}
  void Arrive() {
    std::unique_lock<std::mutex> lock(mutex_);
    const int round = round_;
    if (++arrived_ == threads_) {
      arrived_ = 0;
      ++round_;
      changed_.notify_all();
    } else {
      changed_.wait(lock, [&] { return round_ != round; });
    }
  }

 private:
  const int threads_;
  int arrived_ = 0;
  int round_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
};

struct Measurement {
  std::string direction;
  std::string memory;
  size_t bytes = 0;
  int devices = 1;
};

Measurement Parse(const char* text) {
  Measurement measurement;
  char direction[32];
  char memory[32];
  if (std::sscanf(text, "%31[^:]:%31[^:]:%zu:%d", direction, memory, &measurement.bytes,
                  &measurement.devices) < 3 ||
      measurement.bytes == 0 || measurement.devices < 1) {
    std::fprintf(stderr, "'%s' is not DIRECTION:MEMORY:BYTES[:DEVICES]\n", text);
    std::exit(2);
  }
  measurement.direction = direction;
  measurement.memory = memory;
  return measurement;
}

// Buffers of one copy, allocated once with the largest size.
struct Buffers {
  char* host = nullptr;
  char* device = nullptr;
  cudaStream_t stream = nullptr;
};

Buffers Allocate(int device, bool pinned, size_t bytes) {
  Buffers buffers;
  CHECK(cudaSetDevice(device));
  CHECK(cudaStreamCreateWithFlags(&buffers.stream, cudaStreamNonBlocking));
  CHECK(cudaMalloc(&buffers.device, bytes));
  if (pinned)
    CHECK(cudaMallocHost(&buffers.host, bytes));
  else
    buffers.host = static_cast<char*>(std::malloc(bytes));
  std::memset(buffers.host, 1, bytes);
  CHECK(cudaMemset(buffers.device, 2, bytes));
  CHECK(cudaDeviceSynchronize());
  return buffers;
}

void Free(const Buffers& buffers, bool pinned) {
  CHECK(cudaStreamDestroy(buffers.stream));
  CHECK(cudaFree(buffers.device));
  if (pinned)
    CHECK(cudaFreeHost(buffers.host));
  else
    std::free(buffers.host);
}

void Copy(const Buffers& buffers, bool to, size_t bytes) {
  const cudaMemcpyKind kind = to ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost;
  CHECK(cudaMemcpyAsync(to ? buffers.device : buffers.host, to ? buffers.host : buffers.device,
                        bytes, kind, buffers.stream));
  CHECK(cudaStreamSynchronize(buffers.stream));
}

void Print(const Measurement& measurement, const std::vector<double>& samples) {
  std::printf("%s %s %zu %d", measurement.direction.c_str(), measurement.memory.c_str(),
              measurement.bytes, measurement.devices);
  for (const double sample : samples) std::printf(" %.6g", sample);
  std::printf("\n");
  std::fflush(stdout);
}

// Repeats `copy` on `threads` threads, one per simultaneous copy.
void Repeat(const Measurement& measurement, int threads,
            const std::function<void(int thread)>& copy) {
  Barrier barrier(threads);
  std::vector<double> samples;
  bool more = true;
  const Clock::time_point end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                                   std::chrono::duration<double>(seconds));
  const auto body = [&](int thread) {
    copy(thread);  // Warm-up, not counted.
    for (int i = 0;; ++i) {
      barrier.Arrive();
      if (thread == 0) more = i < repetitions && (i < 2 || Clock::now() < end);
      barrier.Arrive();
      if (!more) return;
      const auto start = Clock::now();
      copy(thread);
      barrier.Arrive();
      const double time = std::chrono::duration<double>(Clock::now() - start).count();
      if (thread == 0)
        samples.push_back(static_cast<double>(measurement.bytes) * threads / time / 1e9);
    }
  };
  std::vector<std::thread> others;
  for (int thread = 1; thread < threads; ++thread) others.emplace_back(body, thread);
  body(0);
  for (std::thread& other : others) other.join();
  Print(measurement, samples);
}

void BetweenHostAndDevice(const Measurement& measurement) {
  const bool pinned = measurement.memory == "pinned";
  const bool both = measurement.direction == "both";
  const int copies = both ? 2 : 1;
  std::vector<Buffers> buffers;
  for (int i = 0; i < measurement.devices * copies; ++i)
    buffers.push_back(Allocate(i / copies, pinned, measurement.bytes));
  Repeat(measurement, static_cast<int>(buffers.size()), [&](int thread) {
    CHECK(cudaSetDevice(thread / copies));
    const bool to = both ? thread % 2 == 0 : measurement.direction == "to-device";
    Copy(buffers[static_cast<size_t>(thread)], to, measurement.bytes);
  });
  for (const Buffers& used : buffers) Free(used, pinned);
}

void BetweenDevices(const Measurement& measurement) {
  char* memory[2];
  for (int device = 0; device < 2; ++device) {
    CHECK(cudaSetDevice(device));
    CHECK(cudaMalloc(&memory[device], measurement.bytes));
    CHECK(cudaMemset(memory[device], device, measurement.bytes));
    CHECK(cudaDeviceSynchronize());
  }
  // Enables peer access if possible, as programs tuned for speed do.
  for (int device = 0; device < 2; ++device) {
    CHECK(cudaSetDevice(device));
    if (cudaDeviceEnablePeerAccess(1 - device, 0) != cudaSuccess) cudaGetLastError();
  }
  CHECK(cudaSetDevice(1));
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  Repeat(measurement, 1, [&](int) {
    CHECK(cudaMemcpyPeerAsync(memory[1], 1, memory[0], 0, measurement.bytes, stream));
    CHECK(cudaStreamSynchronize(stream));
  });
  CHECK(cudaStreamDestroy(stream));
  for (char* used : memory) CHECK(cudaFree(used));
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<Measurement> measurements;
  bool hold = false;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--repetitions") == 0 && i + 1 < argc)
      repetitions = std::max(std::atoi(argv[++i]), 1);
    else if (std::strcmp(argv[i], "--seconds") == 0 && i + 1 < argc)
      seconds = std::atof(argv[++i]);
    else if (std::strcmp(argv[i], "--hold") == 0)
      hold = true;
    else
      measurements.push_back(Parse(argv[i]));
  }
  int devices = 0;
  CHECK(cudaGetDeviceCount(&devices));
  for (const Measurement& measurement : measurements) {
    const int needed = measurement.direction == "device-to-device" ? 2 : measurement.devices;
    if (needed > devices) continue;  // Too few devices.
    if (measurement.direction == "device-to-device")
      BetweenDevices(measurement);
    else
      BetweenHostAndDevice(measurement);
  }
  if (!hold) return 0;
  std::puts("ready");
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  return 0;
}

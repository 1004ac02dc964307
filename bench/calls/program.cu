// Cost of CUDA runtime calls for the calling program. An ordinary CUDA program, run by `cuspan
// bench calls` in several placements. It prints one line for each class of calls (measure.h). In
// lines with the CALL idle:PROCESS, ISSUE_US is instead the processor time of an idle process, in
// percent of one core.
//
//   program [--rounds N] [--threads T --devices D]
//   program --first-kernel 1    runs one kernel and ends
#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "bench/calls/measure.h"
#include "bench/common/check_cuda.h"

namespace {

__global__ void Empty() {}

struct Arguments {
  int values[1000];
};
__global__ void TakeArguments(Arguments) {}

__global__ void RunFor(long long nanoseconds) {
  long long start = 0;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
  for (long long now = start; now - start < nanoseconds;)
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
}

__global__ void WaitFor(volatile int* go_on) {
  while (*go_on == 0) {
  }
}

void MeasureClasses() {
  const auto nothing = [] {};
  const auto device = [] { CHECK(cudaDeviceSynchronize()); };
  cudaStream_t stream;
  cudaEvent_t event;
  char* memory = nullptr;
  char* pinned = nullptr;
  std::vector<char> pageable(4096);
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  CHECK(cudaMalloc(&memory, 1 << 20));
  CHECK(cudaMallocHost(&pinned, 4096));
  CHECK(cudaEventRecord(event, stream));
  CHECK(cudaDeviceSynchronize());

  const auto measure = [&](const char* name, const std::function<void()>& call,
                           const std::function<void()>& wait, int calls_at_once = 1) {
    Print(name, 1, 1, Measure(call, wait, calls_at_once));
  };
  measure(
      "launch", [] { Empty<<<1, 1>>>(); }, device);
  const Arguments arguments{};
  measure(
      "launch_4000_bytes", [&] { TakeArguments<<<1, 1, 0, stream>>>(arguments); },
      [&] { CHECK(cudaStreamSynchronize(stream)); });
  measure(
      "launch_stream", [&] { Empty<<<1, 1, 0, stream>>>(); },
      [&] { CHECK(cudaStreamSynchronize(stream)); });
  measure(
      "copy_to_8", [&] { CHECK(cudaMemcpy(memory, pageable.data(), 8, cudaMemcpyHostToDevice)); },
      nothing);
  const std::vector<char> large(64 << 10);
  measure(
      "copy_to_64_KiB",
      [&] {
        CHECK(cudaMemcpyAsync(memory, large.data(), large.size(), cudaMemcpyHostToDevice, stream));
      },
      [&] { CHECK(cudaStreamSynchronize(stream)); });
  measure(
      "copy_from_8", [&] { CHECK(cudaMemcpy(pageable.data(), memory, 8, cudaMemcpyDeviceToHost)); },
      nothing);
  measure(
      "copy_to_4096",
      [&] { CHECK(cudaMemcpy(memory, pageable.data(), 4096, cudaMemcpyHostToDevice)); }, device);
  measure(
      "copy_from_4096",
      [&] { CHECK(cudaMemcpy(pageable.data(), memory, 4096, cudaMemcpyDeviceToHost)); }, nothing);
  measure(
      "copy_async_to_4096",
      [&] { CHECK(cudaMemcpyAsync(memory, pinned, 4096, cudaMemcpyHostToDevice, stream)); },
      [&] { CHECK(cudaStreamSynchronize(stream)); });
  measure(
      "memset_async", [&] { CHECK(cudaMemsetAsync(memory, 0, 4096, stream)); },
      [&] { CHECK(cudaStreamSynchronize(stream)); });
  measure(
      "malloc_free",
      [] {
        void* block = nullptr;
        CHECK(cudaMalloc(&block, 65536));
        CHECK(cudaFree(block));
      },
      nothing);
  measure(
      "malloc_async_free_async",
      [&] {
        void* block = nullptr;
        CHECK(cudaMallocAsync(&block, 65536, stream));
        CHECK(cudaFreeAsync(block, stream));
      },
      [&] { CHECK(cudaStreamSynchronize(stream)); });
  measure(
      "event_record", [&] { CHECK(cudaEventRecord(event, stream)); },
      [&] { CHECK(cudaEventSynchronize(event)); });
  measure(
      "stream_wait_event", [&] { CHECK(cudaStreamWaitEvent(stream, event, 0)); },
      [&] { CHECK(cudaStreamSynchronize(stream)); });
  cudaEvent_t timed;
  cudaEvent_t earlier;
  CHECK(cudaEventCreate(&timed));
  CHECK(cudaEventCreate(&earlier));
  CHECK(cudaEventRecord(earlier, stream));
  measure(
      "event_record_timed", [&] { CHECK(cudaEventRecord(timed, stream)); },
      [&] { CHECK(cudaEventSynchronize(timed)); });
  float milliseconds = 0;
  measure(
      "event_elapsed_time", [&] { CHECK(cudaEventElapsedTime(&milliseconds, earlier, timed)); },
      nothing);
  measure(
      "stream_synchronize_idle", [&] { CHECK(cudaStreamSynchronize(stream)); }, nothing);
  measure("device_synchronize_idle", device, nothing);
  std::size_t free_bytes = 0;
  std::size_t all_bytes = 0;
  measure(
      "memory_info", [&] { CHECK(cudaMemGetInfo(&free_bytes, &all_bytes)); }, nothing);
  measure(
      "event_query", [&] { cudaEventQuery(event); }, nothing);
  measure(
      "stream_query", [&] { cudaStreamQuery(stream); }, nothing);
  // Same, with a kernel running in the stream. A copy in another stream lets the kernel end.
  cudaStream_t other;
  CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  int* const go_on = reinterpret_cast<int*>(memory);
  CHECK(cudaMemset(go_on, 0, sizeof *go_on));
  CHECK(cudaDeviceSynchronize());
  WaitFor<<<1, 1, 0, stream>>>(go_on);
  CHECK(cudaGetLastError());
  measure(
      "stream_query_busy", [&] { cudaStreamQuery(stream); }, nothing);
  CHECK(cudaMemsetAsync(go_on, 1, sizeof *go_on, other));
  CHECK(cudaStreamSynchronize(stream));
  cudaGetLastError();  // Clears cudaErrorNotReady.
  measure(
      "hop_between_streams",
      [&] {
        for (cudaStream_t from : {stream, other}) {
          Empty<<<1, 1, 0, from>>>();
          CHECK(cudaEventRecord(event, from));
          CHECK(cudaStreamWaitEvent(from == stream ? other : stream, event, 0));
        }
      },
      [&] { CHECK(cudaStreamSynchronize(stream)); }, 2);
  CHECK(cudaStreamDestroy(other));
  measure(
      "event_create_destroy",
      [] {
        cudaEvent_t made;
        CHECK(cudaEventCreate(&made));
        CHECK(cudaEventDestroy(made));
      },
      nothing);
  measure(
      "stream_create_destroy",
      [] {
        cudaStream_t made;
        CHECK(cudaStreamCreate(&made));
        CHECK(cudaStreamDestroy(made));
      },
      nothing);
  int value = 0;
  MeasureLocal("get_last_error", [] { CHECK(cudaGetLastError()); });
  MeasureLocal("get_device", [&] { CHECK(cudaGetDevice(&value)); });
  MeasureLocal("device_get_attribute",
               [&] { CHECK(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 0)); });
  cudaPointerAttributes attributes;
  MeasureLocal("pointer_get_attributes",
               [&] { CHECK(cudaPointerGetAttributes(&attributes, memory)); });
  cudaFuncAttributes function;
  MeasureLocal("func_get_attributes", [&] { CHECK(cudaFuncGetAttributes(&function, Empty)); });
  MeasureLocal("occupancy", [&] {
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&value, Empty, 128, 0));
  });
}

// Prints the median of `count` durations of `call`, each after a period without calls.
void MeasureAfterPause(const char* name, int count, std::chrono::milliseconds pause,
                       const std::function<void()>& call) {
  std::vector<double> samples;
  for (int i = 0; i < count; ++i) {
    std::this_thread::sleep_for(pause);
    const auto start = Clock::now();
    call();
    samples.push_back(Microseconds(Clock::now() - start));
  }
  Measured measured;
  measured.round_trip = Median(samples);
  Print(name, 1, 1, measured);
}

void MeasureAfterPauses() {
  using std::chrono::milliseconds;
  const auto launch_and_wait = [] {
    Empty<<<1, 1>>>();
    CHECK(cudaDeviceSynchronize());
  };
  MeasureAfterPause("launch_after_20_ms", 51, milliseconds(20), launch_and_wait);
  MeasureAfterPause("launch_after_200_ms", 11, milliseconds(200), launch_and_wait);
  for (const int kernel_milliseconds : {1, 20}) {
    const std::string name = "kernel_of_" + std::to_string(kernel_milliseconds) + "_ms";
    MeasureAfterPause(name.c_str(), 21, milliseconds(0), [&] {
      RunFor<<<1, 1>>>(1'000'000LL * kernel_milliseconds);
      CHECK(cudaDeviceSynchronize());
    });
  }
}

// Launches and waits while another thread copies pinned memory to the device.
void MeasureBesideCopy() {
  constexpr std::size_t kBytes = std::size_t{1} << 28;
  cudaStream_t copying;
  cudaStream_t stream;
  char* memory = nullptr;
  char* pinned = nullptr;
  CHECK(cudaStreamCreateWithFlags(&copying, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaMalloc(&memory, kBytes));
  CHECK(cudaMallocHost(&pinned, kBytes));
  std::atomic<bool> over = false;
  std::atomic<int> copies = 0;
  std::thread copier([&] {
    while (!over) {
      CHECK(cudaMemcpyAsync(memory, pinned, kBytes, cudaMemcpyHostToDevice, copying));
      CHECK(cudaStreamSynchronize(copying));
      ++copies;
    }
  });
  while (copies < 2) std::this_thread::yield();
  std::vector<double> samples;
  while (copies < 6) {
    const auto start = Clock::now();
    Empty<<<1, 1, 0, stream>>>();
    CHECK(cudaStreamSynchronize(stream));
    samples.push_back(Microseconds(Clock::now() - start));
  }
  over = true;
  copier.join();
  Measured measured;
  measured.round_trip = Median(samples);
  Print("launch_beside_copy", 1, 1, measured);
  CHECK(cudaFreeHost(pinned));
  CHECK(cudaFree(memory));
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaStreamDestroy(copying));
}

// Processor time in ns of this process and of each cuspan process on this machine.
std::map<std::string, std::map<std::string, double>> ProcessorTimes() {
  std::map<std::string, std::map<std::string, double>> times;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string folder = entry.path().string();
    std::string name;
    std::getline(std::ifstream(folder + "/comm"), name);
    if (std::filesystem::equivalent(folder, "/proc/self", ignored)) name = "program";
    if (name != "program" && name != "cuspan-agent" && name != "cuspan-proxy") continue;
    double sum = 0;
    for (const auto& task : std::filesystem::directory_iterator(folder + "/task", ignored)) {
      double time = 0;
      std::ifstream(task.path() / "schedstat") >> time;
      sum += time;
    }
    times[name][folder] = sum;
  }
  return times;
}

// If several processes have one name, the busiest counts.
void MeasureIdling() {
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  const auto before = ProcessorTimes();
  const auto start = Clock::now();
  std::this_thread::sleep_for(std::chrono::seconds(3));
  const auto after = ProcessorTimes();
  const double nanoseconds = 1e3 * Microseconds(Clock::now() - start);
  for (const auto& [name, processes] : after) {
    Measured most;
    for (const auto& [process, time] : processes) {
      const auto earlier = before.find(name);
      if (earlier == before.end() || earlier->second.count(process) == 0) continue;
      most.issue = std::max(most.issue, 100 * (time - earlier->second.at(process)) / nanoseconds);
    }
    Print(("idle:" + name).c_str(), 1, 1, most);
  }
}

// Launches by several threads, each with its own stream: in a row, or each with a wait for it.
void MeasureThreads(int threads, int devices, bool wait) {
  const int launches = (wait ? 10 : 100) * rounds;
  std::vector<std::thread> workers;
  std::vector<double> issue(static_cast<std::size_t>(threads));
  const auto work = [&](int index, int count) {
    CHECK(cudaSetDevice(index % devices));
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    const auto start = Clock::now();
    for (int i = 0; i < count; ++i) {
      Empty<<<1, 1, 0, stream>>>();
      if (wait) CHECK(cudaStreamSynchronize(stream));
    }
    issue[static_cast<std::size_t>(index)] = Microseconds(Clock::now() - start) / count;
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaStreamDestroy(stream));
  };
  const auto all = [&](int count) {
    for (int i = 0; i < threads; ++i) workers.emplace_back(work, i, count);
    for (std::thread& worker : workers) worker.join();
    workers.clear();
  };
  all(100);
  const auto start = Clock::now();
  all(launches);
  Measured measured;
  measured.per_second = 1e6 * launches * threads / Microseconds(Clock::now() - start);
  (wait ? measured.round_trip : measured.issue) = Median(issue);
  Print(wait ? "launch_wait_threads" : "launch_threads", threads, devices, measured);
}

}  // namespace

int main(int argc, char** argv) {
  int threads = 0;
  int devices = 1;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const int value = std::atoi(argv[i + 1]);
    if (value <= 0) {
      std::fprintf(stderr, "%s %s: a positive number is needed\n", argv[i], argv[i + 1]);
      return 2;
    }
    if (name == "--rounds") rounds = value;
    if (name == "--threads") threads = value;
    if (name == "--devices") devices = value;
    if (name == "--first-kernel") {
      Empty<<<1, 1>>>();
      CHECK(cudaDeviceSynchronize());
      return 0;
    }
  }
  int count = 0;
  CHECK(cudaGetDeviceCount(&count));
  const auto start = Clock::now();
  CHECK(cudaFree(nullptr));
  Measured first;
  first.round_trip = Microseconds(Clock::now() - start);
  if (threads > 0) {
    for (const bool wait : {false, true}) MeasureThreads(threads, std::min(devices, count), wait);
    return 0;
  }
  Print("first_call", 1, 1, first);
  MeasureClasses();
  MeasureAfterPauses();
  MeasureBesideCopy();
  MeasureIdling();
  return 0;
}

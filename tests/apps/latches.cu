// Kernels and a host waiting for each other through page-locked memory while both run: a kernel for
// the host, the host for a kernel, both alternately, and two devices.
//
//   latches [ROUNDS]
//
// Prints the time of a round trip between the host and a kernel.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "check.h"

namespace {

// Returns when *flag is at least `value`.
__device__ void Await(const volatile int* flag, int value) {
  while (*flag < value) {
  }
  __threadfence_system();
}

__global__ void WaitFor(const volatile int* flag, int value) { Await(flag, value); }

__global__ void Set(int* where, int value) { *where = value; }

__global__ void Add(int* where, int value) { *where += value; }

__global__ void CopyInt(int* to, const int* from) { *to = *from; }

// Reports that it runs, and ends after the host's acknowledgement.
__global__ void Greet(volatile int* greeting, const volatile int* heard) {
  *greeting = 1;
  __threadfence_system();
  Await(heard, 1);
}

// Returns the double of each of the host's numbers.
__global__ void Answer(const volatile int* question, volatile int* answer, int rounds) {
  for (int round = 1; round <= rounds; ++round) {
    Await(question, round);
    *answer = 2 * round;
    __threadfence_system();
  }
}

// Counts up alternately with another device.
__global__ void TakeTurns(volatile int* mine, const volatile int* other, int lead, int rounds) {
  for (int round = 1; round <= rounds; ++round) {
    if (lead == 0) Await(other, round);
    *mine = round;
    __threadfence_system();
    if (lead != 0) Await(other, round);
  }
}

constexpr int kLetterInts = 1000;
constexpr int kFarInts = 128 * 1024 / sizeof(int);

// Receives the host's messages, with a flag at their start, and replies with messages of its own.
__global__ void Correspond(const volatile int* letter, volatile int* answer, int rounds) {
  for (int round = 1; round <= rounds; ++round) {
    Await(letter, round);
    int wrong = 0;
    for (int i = 1; i <= kLetterInts; ++i) wrong += letter[i] != round * 1000 + i;
    for (int i = 1; i <= kLetterInts; ++i) answer[kFarInts + i] = wrong == 0 ? round * 7 + i : -1;
    __threadfence_system();
    *answer = round;
    __threadfence_system();
  }
}

volatile int& Volatile(int& value) { return value; }

enum class Kind { kAllocated, kMapped, kRegistered };
constexpr Kind kKinds[] = {Kind::kAllocated, Kind::kMapped, Kind::kRegistered};

const char* Name(Kind kind) {
  return kind == Kind::kAllocated ? "allocated" : kind == Kind::kMapped ? "mapped" : "registered";
}

// Some ints of page-locked memory, all 0, with their addresses for the host and for kernels.
class Pinned {
 public:
  Pinned(Kind kind, int count) : kind_(kind) {
    const size_t bytes = count * sizeof(int);
    if (kind == Kind::kRegistered) {
      host_ = static_cast<int*>(std::calloc(count, sizeof(int)));
      CHECK(cudaHostRegister(host_, bytes, cudaHostRegisterMapped | cudaHostRegisterPortable));
    } else if (kind == Kind::kMapped) {
      CHECK(cudaHostAlloc(&host_, bytes, cudaHostAllocMapped | cudaHostAllocPortable));
    } else {
      CHECK(cudaMallocHost(&host_, bytes));
    }
    for (int i = 0; i < count; ++i) host_[i] = 0;
    CHECK(cudaHostGetDevicePointer(&device_, host_, 0));
  }
  Pinned(const Pinned&) = delete;
  ~Pinned() {
    if (kind_ != Kind::kRegistered) {
      CHECK(cudaFreeHost(host_));
      return;
    }
    CHECK(cudaHostUnregister(host_));
    std::free(host_);
  }
  int* host() const { return host_; }
  int* device() const { return device_; }

 private:
  const Kind kind_;
  int* host_ = nullptr;
  int* device_ = nullptr;
};

// All ways to wait, after the program has released the kernel.
int CheckKernelWaits(Kind kind) {
  int failures = 0;
  Pinned flag(kind, 1);
  cudaStream_t stream;
  cudaEvent_t done;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
  int* device = nullptr;
  CHECK(cudaMalloc(&device, sizeof(int)));
  constexpr int kWays = 6;
  for (int way = 0; way < kWays; ++way) {
    const int value = way + 1;
    WaitFor<<<1, 1, 0, stream>>>(flag.device(), value);
    CHECK_LAUNCH();
    Set<<<1, 1, 0, stream>>>(device, value);
    CHECK_LAUNCH();
    CHECK(cudaEventRecord(done, stream));
    EXPECT(cudaStreamQuery(stream) == cudaErrorNotReady, "the kernel waits for nobody");
    Volatile(*flag.host()) = value;
    int got = 0;
    switch (way) {
      case 0:
        CHECK(cudaDeviceSynchronize());
        break;
      case 1:
        CHECK(cudaStreamSynchronize(stream));
        break;
      case 2:
        CHECK(cudaEventSynchronize(done));
        break;
      case 3:
        while (cudaEventQuery(done) == cudaErrorNotReady) {
        }
        break;
      case 4:
        while (cudaStreamQuery(stream) == cudaErrorNotReady) {
        }
        break;
      case 5:
        CHECK(cudaMemcpyAsync(&got, device, sizeof got, cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
        break;
    }
    CHECK(cudaMemcpy(&got, device, sizeof got, cudaMemcpyDeviceToHost));
    EXPECT(got == value, "%s memory, way %d: %d", Name(kind), way, got);
  }
  CHECK(cudaFree(device));
  CHECK(cudaEventDestroy(done));
  CHECK(cudaStreamDestroy(stream));
  return failures;
}

// Many launches after a kernel waiting for the host. Meanwhile the host allocates memory.
int CheckManyBehind(Kind kind) {
  int failures = 0;
  constexpr int kRounds = 5;
  constexpr int kLaunches = 400;
  constexpr size_t kBytes = 64 << 20;
  Pinned flag(kind, 1);
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  int* sum = nullptr;
  CHECK(cudaMalloc(&sum, sizeof(int)));
  CHECK(cudaMemset(sum, 0, sizeof(int)));
  CHECK(cudaDeviceSynchronize());
  for (int round = 1; round <= kRounds; ++round) {
    WaitFor<<<1, 1, 0, stream>>>(flag.device(), round);
    for (int i = 0; i < kLaunches; ++i) Add<<<1, 1, 0, stream>>>(sum, 1);
    CHECK_LAUNCH();
    void* memory = nullptr;
    CHECK(cudaMalloc(&memory, kBytes));
    Volatile(*flag.host()) = round;
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaFree(memory));
    int got = 0;
    CHECK(cudaMemcpy(&got, sum, sizeof got, cudaMemcpyDeviceToHost));
    EXPECT(got == round * kLaunches, "%s memory: %d launches, not %d", Name(kind), got,
           round * kLaunches);
  }
  CHECK(cudaFree(sum));
  CHECK(cudaStreamDestroy(stream));
  return failures;
}

// The host makes no calls during its wait.
int CheckHostWaits(Kind kind) {
  Pinned flags(kind, 2);
  Greet<<<1, 1>>>(flags.device(), flags.device() + 1);
  CHECK_LAUNCH();
  while (Volatile(flags.host()[0]) == 0) {
  }
  Volatile(flags.host()[1]) = 1;
  CHECK(cudaDeviceSynchronize());
  return 0;
}

// Another thread releases the kernel, without a CUDA call.
int CheckThread(Kind kind) {
  Pinned flag(kind, 1);
  std::atomic<bool> launched{false};
  std::thread other([&] {
    while (!launched) std::this_thread::yield();
    Volatile(*flag.host()) = 1;
  });
  WaitFor<<<1, 1>>>(flag.device(), 1);
  CHECK_LAUNCH();
  launched = true;
  CHECK(cudaDeviceSynchronize());
  other.join();
  return 0;
}

int CheckTurns(Kind kind, int rounds) {
  int failures = 0;
  Pinned flags(kind, 2);
  const auto start = std::chrono::steady_clock::now();
  Answer<<<1, 1>>>(flags.device(), flags.device() + 1, rounds);
  CHECK_LAUNCH();
  for (int round = 1; round <= rounds; ++round) {
    Volatile(flags.host()[0]) = round;
    int answer = 0;
    while ((answer = Volatile(flags.host()[1])) < 2 * round) {
    }
    EXPECT(answer == 2 * round, "round %d is answered with %d", round, answer);
  }
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
  CHECK(cudaDeviceSynchronize());
  std::printf("latches: %.1f us for a round trip through %s memory\n", took.count() / rounds,
              Name(kind));
  return failures;
}

// Flags announce other data, in memory far from them and near.
int CheckLetters(Kind kind, int rounds) {
  int failures = 0;
  Pinned memory(kind, 2 * kFarInts + kLetterInts + 1);
  int* const letter = memory.host();
  int* const answer = memory.host() + kFarInts - 1;
  Correspond<<<1, 1>>>(memory.device(), memory.device() + kFarInts - 1, rounds);
  CHECK_LAUNCH();
  int wrong = 0, last_wrong = 0;
  for (int round = 1; round <= rounds; ++round) {
    for (int i = 1; i <= kLetterInts; ++i) letter[i] = round * 1000 + i;
    std::atomic_thread_fence(std::memory_order_seq_cst);
    Volatile(letter[0]) = round;
    while (Volatile(answer[0]) < round) {
    }
    for (int i = 1; i <= kLetterInts; ++i) {
      const int value = Volatile(answer[kFarInts + i]);
      if (value == round * 7 + i) continue;
      ++wrong;
      last_wrong = value;
    }
  }
  EXPECT(wrong == 0, "%d values of %s memory are older than their flags, %d the last (%s)", wrong,
         Name(kind), last_wrong, last_wrong == -1 ? "the kernel's" : "the host's");
  CHECK(cudaDeviceSynchronize());
  return failures;
}

// A benchmark fills its stream behind a latch, and releases it after all work is submitted.
int CheckHeldBack(Kind kind) {
  constexpr int kLaunches = 300, kInts = 100'000;
  int failures = 0;
  Pinned flag(kind, 1);
  Pinned sum(kind, 1);
  cudaStream_t held, other;
  cudaEvent_t start, end;
  CHECK(cudaStreamCreateWithFlags(&held, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  CHECK(cudaEventCreate(&start));
  CHECK(cudaEventCreate(&end));
  int *device = nullptr, *from = nullptr, *to = nullptr;
  CHECK(cudaMalloc(&device, kInts * sizeof(int)));
  CHECK(cudaMallocHost(&from, kInts * sizeof(int)));
  CHECK(cudaMallocHost(&to, kInts * sizeof(int)));
  for (int i = 0; i < kInts; ++i) from[i] = i;
  WaitFor<<<1, 1, 0, held>>>(flag.device(), 1);
  CHECK_LAUNCH();
  CHECK(cudaEventRecord(start, held));
  for (int i = 1; i <= kLaunches; ++i) {
    Add<<<1, 1, 0, held>>>(sum.device(), i);
    CHECK_LAUNCH();
  }
  CHECK(cudaEventRecord(end, held));
  // Work not waiting for it continues.
  CHECK(cudaMemcpyAsync(device, from, kInts * sizeof(int), cudaMemcpyHostToDevice, other));
  CHECK(cudaMemcpyAsync(to, device, kInts * sizeof(int), cudaMemcpyDeviceToHost, other));
  CHECK(cudaStreamSynchronize(other));
  EXPECT(to[kInts - 1] == kInts - 1, "%d copied beside the latch", to[kInts - 1]);
  EXPECT(cudaEventQuery(start) == cudaErrorNotReady, "the stream is not held");
  Volatile(*flag.host()) = 1;
  CHECK(cudaEventSynchronize(end));
  EXPECT(*sum.host() == kLaunches * (kLaunches + 1) / 2, "a sum of %d", *sum.host());
  float milliseconds = -1;
  CHECK(cudaEventElapsedTime(&milliseconds, start, end));
  EXPECT(milliseconds >= 0, "%g ms", milliseconds);
  CHECK(cudaFreeHost(to));
  CHECK(cudaFreeHost(from));
  CHECK(cudaFree(device));
  CHECK(cudaEventDestroy(end));
  CHECK(cudaEventDestroy(start));
  CHECK(cudaStreamDestroy(other));
  CHECK(cudaStreamDestroy(held));
  return failures;
}

// One latch holds both devices. Work of the second waits for that of the first.
int CheckDevices(Kind kind, int rounds) {
  int failures = 0;
  Pinned flag(kind, 1);
  Pinned values(kind, 2);
  int* got = nullptr;
  cudaStream_t streams[2];
  cudaEvent_t first;
  for (int device = 0; device < 2; ++device) {
    CHECK(cudaSetDevice(device));
    CHECK(cudaStreamCreateWithFlags(&streams[device], cudaStreamNonBlocking));
  }
  CHECK(cudaMalloc(&got, sizeof(int)));
  CHECK(cudaSetDevice(0));
  CHECK(cudaEventCreateWithFlags(&first, cudaEventDisableTiming));
  for (int device = 0; device < 2; ++device) {
    CHECK(cudaSetDevice(device));
    WaitFor<<<1, 1, 0, streams[device]>>>(flag.device(), 1);
    CHECK_LAUNCH();
  }
  CHECK(cudaSetDevice(0));
  Set<<<1, 1, 0, streams[0]>>>(values.device(), 42);
  CHECK_LAUNCH();
  CHECK(cudaEventRecord(first, streams[0]));
  CHECK(cudaSetDevice(1));
  CHECK(cudaStreamWaitEvent(streams[1], first, 0));
  CopyInt<<<1, 1, 0, streams[1]>>>(got, values.device());
  CHECK_LAUNCH();
  Volatile(*flag.host()) = 1;
  CHECK(cudaStreamSynchronize(streams[1]));
  int value = 0;
  CHECK(cudaMemcpy(&value, got, sizeof value, cudaMemcpyDeviceToHost));
  EXPECT(value == 42, "the second device finds %d", value);

  // The devices wait for each other, and the host for both.
  Pinned turns(kind, 2);
  const auto start = std::chrono::steady_clock::now();
  for (int device = 0; device < 2; ++device) {
    CHECK(cudaSetDevice(device));
    TakeTurns<<<1, 1, 0, streams[device]>>>(turns.device() + device, turns.device() + 1 - device,
                                            device, rounds);
    CHECK_LAUNCH();
  }
  for (int device = 0; device < 2; ++device) {
    CHECK(cudaSetDevice(device));
    CHECK(cudaDeviceSynchronize());
  }
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
  EXPECT(turns.host()[0] == rounds && turns.host()[1] == rounds, "%d and %d", turns.host()[0],
         turns.host()[1]);
  std::printf("latches: %.1f us for a round trip between two devices through %s memory\n",
              took.count() / rounds, Name(kind));
  CHECK(cudaSetDevice(1));
  CHECK(cudaFree(got));
  for (cudaStream_t stream : streams) CHECK(cudaStreamDestroy(stream));
  CHECK(cudaEventDestroy(first));
  CHECK(cudaSetDevice(0));
  return failures;
}

// Loads all kernels: at a kernel's first launch, a driver may wait until the device is idle.
void LoadKernels() {
  Pinned flags(Kind::kAllocated, 3);
  int* const flag = flags.device();
  WaitFor<<<1, 1>>>(flag, 0);
  Set<<<1, 1>>>(flag, 1);
  Add<<<1, 1>>>(flag, 1);
  CopyInt<<<1, 1>>>(flag + 1, flag);
  Greet<<<1, 1>>>(flag + 2, flag);
  Answer<<<1, 1>>>(flag, flag + 1, 0);
  TakeTurns<<<1, 1>>>(flag, flag + 1, 0, 0);
  Correspond<<<1, 1>>>(flag, flag + 1, 0);
  CHECK_LAUNCH();
  CHECK(cudaDeviceSynchronize());
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = static_cast<int>(NumberArgument(argc, argv, 1, 100, 1, 1'000'000));
  const int devices = DeviceCount();
  int failures = 0;
  for (int device = devices - 1; device >= 0; --device) {
    CHECK(cudaSetDevice(device));
    LoadKernels();
  }
  for (const Kind kind : kKinds) {
    failures += CheckKernelWaits(kind);
    failures += CheckManyBehind(kind);
    failures += CheckHostWaits(kind);
    failures += CheckThread(kind);
    failures += CheckTurns(kind, rounds);
    failures += CheckLetters(kind, rounds);
    failures += CheckHeldBack(kind);
    if (devices > 1) failures += CheckDevices(kind, rounds);
  }
  std::printf("latches: %d rounds, %d %s: %s\n", rounds, devices, Devices(devices),
              Verdict(failures));
  return ExitStatus(failures);
}

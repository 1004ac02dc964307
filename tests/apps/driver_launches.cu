// Launches faster than the device executes them. Each runs once, in its stream's order, with its
// own arguments. An error of one affects only this one.
//
//   driver_launches [LAUNCHES]
#include <cooperative_groups.h>
#include <cuda.h>

#include <cstdio>
#include <string>
#include <vector>

#include "driver_check.h"

namespace {

int failures = 0;
int launches = 0;

// A count. Each launch expects the value of the launch before it. The next int counts mismatches.
__global__ void Step(int* count, int expected) {
  if (*count != expected) ++count[1];
  *count = expected + 1;
}

struct Wide {
  int expected;
  int filler[100];
};

// The same with more arguments, and more threads.
__global__ void WideStep(Wide wide, int last, int* count) {
  if (threadIdx.x != 0) return;
  if (*count != wide.expected || wide.filler[99] != last) ++count[1];
  *count = wide.expected + 1;
}

__global__ void SharedStep(int* count, int expected, int words) {
  extern __shared__ int shared[];
  for (int i = threadIdx.x; i < words; i += blockDim.x) shared[i] = expected + i;
  __syncthreads();
  if (threadIdx.x != 0) return;
  if (*count != expected || shared[words - 1] != expected + words - 1) ++count[1];
  *count = expected + 1;
}

__global__ void GridStep(int* count, int expected) {
  cooperative_groups::this_grid().sync();
  if (blockIdx.x != 0 || threadIdx.x != 0) return;
  if (*count != expected) ++count[1];
  *count = expected + 1;
}

// Needs more than 128 bytes of stack for each level.
__device__ __noinline__ int Deep(int levels, int seed) {
  volatile int place[32];
  for (int i = 0; i < 32; ++i) place[i] = seed + i;
  const int below = levels == 0 ? 0 : Deep(levels - 1, seed + 1);
  return below + place[levels % 32] - place[0];
}
__global__ void DeepStep(int* count, int expected, int levels) {
  const int deep = Deep(levels, expected);
  int sum = 0;
  for (int i = 0; i <= levels; ++i) sum += i % 32;
  if (*count != expected || deep != sum) ++count[1];
  *count = expected + 1;
}

__global__ void Compare(const int* a, const int* b, int* different) {
  if (*a != *b) ++*different;
}

// A count on the device, and its expected value.
struct Counter {
  Counter() {
    CHECK(cudaMalloc(&place, 2 * sizeof(int)));
    CHECK(cudaMemset(place, 0, 2 * sizeof(int)));
    CHECK(cudaDeviceSynchronize());  // The program's streams must come after this.
  }
  ~Counter() { CHECK(cudaFree(place)); }
  Counter(const Counter&) = delete;

  void Launch(cudaStream_t stream) {
    const int expected = steps++;
    if (expected % 3 == 0) {
      Wide wide{};
      wide.expected = expected;
      wide.filler[99] = expected / 2;
      WideStep<<<1, 32, 0, stream>>>(wide, expected / 2, place);
    } else {
      Step<<<1, 1, 0, stream>>>(place, expected);
    }
  }
  void Check(const char* what) const {
    CHECK_LAUNCH();
    int read[2] = {};
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(read, place, sizeof read, cudaMemcpyDeviceToHost));
    EXPECT(read[0] == steps && read[1] == 0, "%s: %d of %d launches, %d of them in a wrong place",
           what, read[0], steps, read[1]);
  }

  int* place = nullptr;
  int steps = 0;
};

void CheckOneStream(cudaStream_t stream, const char* what) {
  Counter counter;
  for (int i = 0; i < launches; ++i) counter.Launch(stream);
  counter.Check(what);
}

// Launches from one thread into several streams alternately. Sometimes the legacy stream follows
// them.
void CheckSeveralStreams() {
  constexpr int kStreams = 4;
  cudaStream_t streams[kStreams];
  Counter counters[kStreams];
  int* different = nullptr;
  CHECK(cudaMalloc(&different, sizeof(int)));
  CHECK(cudaMemset(different, 0, sizeof(int)));
  for (cudaStream_t& stream : streams) CHECK(cudaStreamCreate(&stream));
  for (int i = 0; i < launches / 2; ++i) {
    for (int s = 0; s < kStreams; ++s) counters[s].Launch(streams[s]);
    if (i % 500 != 499) continue;
    for (int s = 1; s < kStreams; ++s)
      Compare<<<1, 1>>>(counters[0].place, counters[s].place, different);
  }
  for (const Counter& counter : counters) counter.Check("streams by turns");
  int read = 0;
  CHECK(cudaMemcpy(&read, different, sizeof read, cudaMemcpyDeviceToHost));
  EXPECT(read == 0, "the legacy stream found %d differences", read);
  for (cudaStream_t& stream : streams) CHECK(cudaStreamDestroy(stream));
  CHECK(cudaFree(different));
}

// Copies, sets and events between series of launches of any length.
void CheckOtherWorkBetween(cudaStream_t stream) {
  Counter counter;
  cudaStream_t reader;
  CHECK(cudaStreamCreateWithFlags(&reader, cudaStreamNonBlocking));
  cudaEvent_t event;
  CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  constexpr int kRuns = 60;
  int* copies = nullptr;
  int* host = nullptr;
  CHECK(cudaMalloc(&copies, 2 * kRuns * sizeof(int)));
  CHECK(cudaMallocHost(&host, kRuns * sizeof(int)));
  int expected[kRuns];
  for (int run = 0; run < kRuns; ++run) {
    for (int i = 0; i < run * 3; ++i) counter.Launch(stream);
    expected[run] = counter.steps;
    CHECK(cudaMemcpyAsync(copies + run, counter.place, sizeof(int), cudaMemcpyDeviceToDevice,
                          stream));
    if (run % 4 == 0) {
      CHECK(cudaEventRecord(event, stream));
      CHECK(cudaStreamWaitEvent(reader, event, 0));
      CHECK(cudaMemcpyAsync(host + run, copies + run, sizeof(int), cudaMemcpyDeviceToHost, reader));
    } else {
      CHECK(cudaMemcpyAsync(host + run, copies + run, sizeof(int), cudaMemcpyDeviceToHost, stream));
    }
    CHECK(cudaMemsetAsync(copies + run, 0, sizeof(int), run % 4 == 0 ? reader : stream));
  }
  counter.Check("other work between");
  for (int run = 0; run < kRuns; ++run)
    EXPECT(host[run] == expected[run], "run %d left %d, not %d", run, host[run], expected[run]);
  CHECK(cudaEventDestroy(event));
  CHECK(cudaStreamDestroy(reader));
  CHECK(cudaFree(copies));
  CHECK(cudaFreeHost(host));
}

// Refused launches, and launches with special requirements.
void CheckUnlikeLaunches(cudaStream_t stream) {
  Counter counter;
  int most_shared = 0;
  CHECK(cudaDeviceGetAttribute(&most_shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
  const int words = most_shared / 4;
  for (int i = 0; i < launches; ++i) {
    counter.Launch(stream);
    if (i % 701 == 0) {
      Step<<<1, 4096, 0, stream>>>(counter.place, -1);
      const cudaError_t too_wide = cudaGetLastError();
      EXPECT(too_wide == cudaErrorInvalidConfiguration || too_wide == cudaErrorInvalidValue,
             "a block of 4096 threads: %s", cudaGetErrorName(too_wide));
      Step<<<1, 1, 1 << 30, stream>>>(counter.place, -1);
      EXPECT(cudaGetLastError() == cudaErrorInvalidValue, "1 GiB of shared memory");
    }
    if (i % 97 == 0) {
      int expected = counter.steps++;
      void* arguments[] = {&counter.place, &expected};
      CHECK(cudaLaunchCooperativeKernel(reinterpret_cast<void*>(GridStep), 2, 32, arguments, 0,
                                        stream));
    }
    if (i == launches / 2) {
      CHECK(cudaFuncSetAttribute(SharedStep, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 most_shared));
      CHECK(cudaDeviceSetLimit(cudaLimitStackSize, 16 << 10));
    }
    if (i > launches / 2 && i % 5 == 0) {
      const int expected = counter.steps++;
      SharedStep<<<1, 64, words * 4, stream>>>(counter.place, expected, words);
    }
    if (i > launches / 2 && i % 7 == 0) {
      const int expected = counter.steps++;
      DeepStep<<<1, 1, 0, stream>>>(counter.place, expected, 40);
    }
  }
  counter.Check("unlike launches");
}

// Modules unloaded while launches of their kernels and others may be in flight.
void CheckModules(CUstream stream) {
  const std::string text = R"(
.version 6.0
.target sm_50
.address_size 64
.visible .entry step(.param .u64 count, .param .u32 expected)
{
  .reg .pred %p<2>;
  .reg .b32 %r<5>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [count];
  cvta.to.global.u64 %rd2, %rd1;
  ld.param.u32 %r1, [expected];
  ld.global.u32 %r2, [%rd2];
  setp.eq.u32 %p1, %r1, %r2;
  @%p1 bra RIGHT;
  ld.global.u32 %r3, [%rd2+4];
  add.u32 %r3, %r3, 1;
  st.global.u32 [%rd2+4], %r3;
RIGHT:
  add.u32 %r4, %r1, 1;
  st.global.u32 [%rd2], %r4;
  ret;
}
)";
  Counter counter;
  for (int round = 0; round < 4; ++round) {
    CUmodule module = nullptr;
    CUfunction step = nullptr;
    DRIVER(cuModuleLoadData(&module, text.c_str()));
    DRIVER(cuModuleGetFunction(&step, module, "step"));
    for (int i = 0; i < launches / 4; ++i) {
      counter.Launch(stream);
      int expected = counter.steps++;
      void* arguments[] = {&counter.place, &expected};
      DRIVER(cuLaunchKernel(step, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr));
    }
    DRIVER(cuModuleUnload(module));
  }
  counter.Check("modules that go");
}

}  // namespace

int main(int argc, char** argv) {
  launches = static_cast<int>(NumberArgument(argc, argv, 1, 4000, 1, 10'000'000));
  DeviceCount();
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CheckOneStream(nullptr, "legacy stream");
  CheckOneStream(cudaStreamPerThread, "per-thread stream");
  CheckOneStream(stream, "non-blocking stream");
  CheckSeveralStreams();
  CheckOtherWorkBetween(stream);
  CheckUnlikeLaunches(stream);
  CheckModules(stream);
  // Each series of launches has its own stream, destroyed after it.
  for (int i = 0; i < 8; ++i) {
    cudaStream_t own;
    CHECK(cudaStreamCreateWithPriority(&own, cudaStreamNonBlocking, i % 2 == 0 ? -1 : 0));
    CheckOneStream(own, "stream of a short life");
    CHECK(cudaStreamDestroy(own));
  }
  CHECK(cudaStreamDestroy(stream));
  std::printf("driver_launches: %d launches: %s\n", launches, Verdict(failures));
  return ExitStatus(failures);
}

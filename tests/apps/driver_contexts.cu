// Contexts of the driver API: two on one device, each with its own memory, module and stream. Also
// uses of the runtime between them, and many threads pushing and popping them.
//
//   driver_contexts
#include <cuda.h>

#include <cstdio>
#include <thread>
#include <vector>

#include "driver_check.h"

namespace {

int failures = 0;

const char* const kPtx = R"(
.version 6.0
.target sm_50
.address_size 64
.visible .global .align 4 .u32 total;
.visible .entry add(.param .u32 value)
{
  .reg .b32 %r<3>;
  ld.param.u32 %r1, [value];
  red.global.add.u32 [total], %r1;
  ret;
}
)";

CUcontext Current() {
  CUcontext context = nullptr;
  DRIVER(cuCtxGetCurrent(&context));
  return context;
}

// A program's objects in one context.
struct Place {
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUfunction add = nullptr;
  CUdeviceptr total = 0;
  CUstream stream = nullptr;
  CUdeviceptr memory = 0;
};

constexpr std::size_t kBytes = 1 << 20;

Place MakePlace(CUdevice device) {
  Place place;
  DRIVER(cuCtxCreate(&place.context, nullptr, 0, device));
  EXPECT(Current() == place.context, "the new context is not current");
  DRIVER(cuModuleLoadData(&place.module, kPtx));
  DRIVER(cuModuleGetFunction(&place.add, place.module, "add"));
  std::size_t bytes = 0;
  DRIVER(cuModuleGetGlobal(&place.total, &bytes, place.module, "total"));
  DRIVER(cuStreamCreate(&place.stream, CU_STREAM_NON_BLOCKING));
  DRIVER(cuMemAlloc(&place.memory, kBytes));
  CUcontext popped = nullptr;
  DRIVER(cuCtxPopCurrent(&popped));
  EXPECT(popped == place.context, "another context was popped");
  return place;
}

// Adds `value` many times, each with the context current.
void Add(const Place& place, unsigned value, int times) {
  for (int i = 0; i < times; ++i) {
    DRIVER(cuCtxPushCurrent(place.context));
    void* arguments[] = {&value};
    DRIVER(cuLaunchKernel(place.add, 1, 1, 1, 1, 1, 1, 0, place.stream, arguments, nullptr));
    CUcontext popped = nullptr;
    DRIVER(cuCtxPopCurrent(&popped));
    EXPECT(popped == place.context, "another context was popped");
  }
}

unsigned Total(const Place& place) {
  DRIVER(cuCtxPushCurrent(place.context));
  DRIVER(cuStreamSynchronize(place.stream));
  unsigned total = 0;
  DRIVER(cuMemcpyDtoH(&total, place.total, sizeof total));
  DRIVER(cuCtxPopCurrent(nullptr));
  return total;
}

void CheckThreads(const Place& one, const Place& other) {
  constexpr int kThreads = 4;
  constexpr int kTimes = 50;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&, i] {
      EXPECT(Current() == nullptr, "a thread begins with a context");
      Add(one, 1, kTimes);
      Add(i % 2 == 0 ? one : other, 1000, kTimes);
    });
  for (std::thread& thread : threads) thread.join();
  const unsigned first = Total(one);
  const unsigned second = Total(other);
  EXPECT(first == kThreads * kTimes + 2 * kTimes * 1000, "%u", first);
  EXPECT(second == 2 * kTimes * 1000, "%u", second);
}

// Each context has its own memory. Copies go from one to the other.
void CheckMemory(const Place& one, const Place& other) {
  DRIVER(cuCtxPushCurrent(one.context));
  DRIVER(cuMemsetD8(one.memory, 0x5a, kBytes));
  CUcontext owner = nullptr;
  DRIVER(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, other.memory));
  EXPECT(owner == other.context, "another context");
  DRIVER(cuMemcpyPeer(other.memory, other.context, one.memory, one.context, kBytes));
  std::vector<unsigned char> read(kBytes);
  DRIVER(cuMemcpyDtoH(read.data(), other.memory, kBytes));
  EXPECT(read.front() == 0x5a && read.back() == 0x5a, "%x, %x", read.front(), read.back());
  CUcontext of_stream = nullptr;
  DRIVER(cuStreamGetCtx(other.stream, &of_stream));
  EXPECT(of_stream == other.context, "another context");
  DRIVER(cuCtxPopCurrent(nullptr));
}

// The runtime uses the current context, and the primary one after cudaSetDevice.
void CheckRuntime(const Place& one) {
  DRIVER(cuCtxPushCurrent(one.context));
  void* memory = nullptr;
  CHECK(cudaMalloc(&memory, kBytes));
  CUcontext owner = nullptr;
  DRIVER(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT,
                               reinterpret_cast<CUdeviceptr>(memory)));
  EXPECT(owner == one.context, "another context");
  CHECK(cudaMemset(memory, 1, kBytes));
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaFree(memory));
  CHECK(cudaSetDevice(0));
  CHECK(cudaFree(nullptr));
  EXPECT(Current() != one.context, "the created context is still current");
  CHECK(cudaDeviceReset());
  // Since CUDA 12, this initialises the primary context.
  CHECK(cudaSetDevice(0));
  unsigned flags = 0;
  int active = 0;
  DRIVER(cuDevicePrimaryCtxGetState(0, &flags, &active));
  EXPECT(active == 1, "no primary context after cudaSetDevice");
  CUdeviceptr block = 0;
  DRIVER(cuMemAlloc(&block, kBytes));
  DRIVER(cuMemFree(block));
  CHECK(cudaDeviceReset());
  DRIVER(cuCtxSetCurrent(one.context));
  DRIVER(cuMemsetD8(one.memory, 2, kBytes));
  DRIVER(cuCtxSynchronize());
  DRIVER(cuCtxPopCurrent(nullptr));
}

}  // namespace

int main() {
  DRIVER(cuInit(0));
  CUdevice device = -1;
  DRIVER(cuDeviceGet(&device, 0));
  const Place one = MakePlace(device);
  const Place other = MakePlace(device);
  EXPECT(one.context != other.context, "one context");
  EXPECT(one.memory != other.memory, "one address");
  CheckThreads(one, other);
  CheckMemory(one, other);
  CheckRuntime(one);
  // A destroyed context ends with its objects. The other one stays.
  DRIVER(cuCtxDestroy(one.context));
  EXPECT(Total(other) != 0, "the other context has lost its module");
  DRIVER(cuCtxSetCurrent(other.context));
  DRIVER(cuCtxDestroy(other.context));
  EXPECT(Current() == nullptr, "a destroyed context is current");
  const Place again = MakePlace(device);
  Add(again, 7, 3);
  const unsigned total = Total(again);
  EXPECT(total == 21, "%u", total);
  DRIVER(cuCtxDestroy(again.context));
  std::printf("driver_contexts: %s\n", Verdict(failures));
  return ExitStatus(failures);
}

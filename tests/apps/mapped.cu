// Page-locked host memory used by kernels in place: mapped, portable, from cudaMallocHost, on all
// devices. registered.cu has the program's own memory.
//
//   mapped [ELEMENTS]
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

#include "check.h"

namespace {

constexpr unsigned kThreads = 128;

__global__ void Scale(float* values, int count, float by) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) values[i] *= by;
}

__global__ void Add(float* to, const float* from, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) to[i] += from[i];
}

__global__ void AddToOdd(unsigned char* bytes, int pairs, int by) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < pairs) bytes[2 * i + 1] += by;
}

__global__ void Sum(int* sums, const unsigned char* bytes, int pairs) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < pairs) sums[i] = bytes[2 * i] * 256 + bytes[2 * i + 1];
}

__global__ void AddAt(int* values, int count, int first, int stride, int by) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) values[first + i * stride] += by;
}
__global__ void SumAt(int* sum, const int* values, int count, int stride, int width) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  for (int k = 0; k < width; ++k) atomicAdd(sum, values[i * stride + k]);
}
__global__ void Count(int* counter, int* all, int* twice) {
  ++*counter;
  ++*all;
  *twice = 2 * *all;
}

unsigned Blocks(int count) { return (count + kThreads - 1) / kThreads; }

int CheckKernels(int devices, int count, unsigned flags) {
  int failures = 0;
  const size_t bytes = count * sizeof(float);
  float* a = nullptr;
  float* b = nullptr;
  CHECK(cudaSetDevice(0));
  CHECK(cudaHostAlloc(&a, bytes, flags));
  CHECK(cudaMallocHost(&b, bytes));
  for (int i = 0; i < count; ++i) {
    a[i] = static_cast<float>(i % 1000);
    b[i] = static_cast<float>(i % 7);
  }
  std::vector<float> expected(a, a + count);
  for (int device = 0; device < devices; ++device) {
    CHECK(cudaSetDevice(device));
    float* on_device = nullptr;
    CHECK(cudaHostGetDevicePointer(&on_device, a, 0));
    Scale<<<Blocks(count), kThreads>>>(on_device, count, 2);
    CHECK_LAUNCH();
    // Unified addressing maps all page-locked memory at its own address.
    Add<<<Blocks(count), kThreads>>>(on_device, b, count);
    CHECK_LAUNCH();
    CHECK(cudaDeviceSynchronize());
    int wrong = 0;
    for (int i = 0; i < count; ++i) {
      expected[i] = expected[i] * 2 + b[i];
      wrong += a[i] != expected[i];
    }
    EXPECT(wrong == 0, "%d values are wrong after device %d", wrong, device);
    // The host's part of the next round.
    for (int i = 0; i < count; i += 3) expected[i] = a[i] = 1;
  }
  CHECK(cudaFreeHost(a));
  CHECK(cudaFreeHost(b));
  return failures;
}

// The host writes one half of a buffer while a kernel may be using the other.
int CheckHalves(int count) {
  int failures = 0;
  float* shared = nullptr;
  CHECK(cudaHostAlloc(&shared, 2 * count * sizeof(float), cudaHostAllocMapped));
  for (int i = 0; i < 2 * count; ++i) shared[i] = 1;
  for (int round = 0; round < 4; ++round) {
    Scale<<<Blocks(count), kThreads>>>(shared, count, 2);
    CHECK_LAUNCH();
    for (int i = count; i < 2 * count; ++i) shared[i] += 1;
    CHECK(cudaDeviceSynchronize());
  }
  int wrong = 0;
  for (int i = 0; i < count; ++i) wrong += shared[i] != 16;
  for (int i = count; i < 2 * count; ++i) wrong += shared[i] != 5;
  EXPECT(wrong == 0, "%d values of the two halves are wrong: %g, %g", wrong, shared[0],
         shared[count]);
  CHECK(cudaFreeHost(shared));
  return failures;
}

// The host writes bytes while a kernel may be writing bytes between them.
int CheckBytes(int pairs) {
  int failures = 0;
  unsigned char* shared = nullptr;
  int* sums = nullptr;
  CHECK(cudaHostAlloc(&shared, 2 * pairs, cudaHostAllocMapped));
  CHECK(cudaMalloc(&sums, pairs * sizeof(int)));
  for (int i = 0; i < 2 * pairs; ++i) shared[i] = 0;
  std::vector<int> expected(pairs), got(pairs);
  for (int round = 1; round <= 3; ++round) {
    AddToOdd<<<Blocks(pairs), kThreads>>>(shared, pairs, round);
    CHECK_LAUNCH();
    // Writes single bytes, and some contiguous ranges.
    for (int i = 0; i < pairs; ++i)
      if (i % (round + 1) == 0 || i % 1000 > 600) shared[2 * i] += round;
    // Runs after the other kernel, launched after all these writes.
    Sum<<<Blocks(pairs), kThreads>>>(sums, shared, pairs);
    CHECK_LAUNCH();
    CHECK(cudaMemcpy(got.data(), sums, pairs * sizeof(int), cudaMemcpyDeviceToHost));
    int wrong = 0, wrong_here = 0;
    for (int i = 0; i < pairs; ++i) {
      if (i % (round + 1) == 0 || i % 1000 > 600) expected[i] += round * 256;
      expected[i] += round;
      wrong += got[i] != expected[i];
      wrong_here += shared[2 * i] * 256 + shared[2 * i + 1] != expected[i];
    }
    EXPECT(wrong == 0 && wrong_here == 0, "%d pairs are wrong on the device, %d on the host", wrong,
           wrong_here);
  }
  CHECK(cudaFree(sums));
  CHECK(cudaFreeHost(shared));
  return failures;
}

// Copies between such memory and a device, with events and streams.
int CheckCopies(int count) {
  int failures = 0;
  const size_t bytes = count * sizeof(float);
  float* host = nullptr;
  float* device = nullptr;
  cudaStream_t stream;
  cudaEvent_t done;
  CHECK(cudaHostAlloc(&host, bytes, cudaHostAllocMapped | cudaHostAllocPortable));
  CHECK(cudaMalloc(&device, bytes));
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaEventCreate(&done));
  for (int i = 0; i < count; ++i) host[i] = static_cast<float>(i % 100);
  CHECK(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream));
  Scale<<<Blocks(count), kThreads, 0, stream>>>(device, count, 3);
  CHECK_LAUNCH();
  CHECK(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, stream));
  Scale<<<Blocks(count), kThreads, 0, stream>>>(host, count, 2);
  CHECK_LAUNCH();
  CHECK(cudaEventRecord(done, stream));
  CHECK(cudaEventSynchronize(done));
  int wrong = 0;
  for (int i = 0; i < count; ++i) wrong += host[i] != static_cast<float>(i % 100) * 6;
  EXPECT(wrong == 0, "%d values are wrong", wrong);
  CHECK(cudaMemset(host, 0, bytes));
  EXPECT(host[0] == 0 && host[count - 1] == 0, "cudaMemset of host memory");
  CHECK(cudaEventDestroy(done));
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaFree(device));
  CHECK(cudaFreeHost(host));
  return failures;
}

// Small results copied to such memory, beside other bytes written by kernels and the host.
int CheckResults(int rounds) {
  int failures = 0;
  int* host = nullptr;
  int* device = nullptr;
  CHECK(cudaHostAlloc(&host, 4 * sizeof(int), cudaHostAllocMapped));
  CHECK(cudaMalloc(&device, 2 * sizeof(int)));
  CHECK(cudaMemset(device, 0, 2 * sizeof(int)));
  for (int i = 0; i < 4; ++i) host[i] = 0;
  int wrong = 0;
  for (int round = 1; round <= rounds; ++round) {
    Count<<<1, 1>>>(device, host + 1, host + 2);
    CHECK_LAUNCH();
    CHECK(cudaMemcpyAsync(host, device, sizeof(int), cudaMemcpyDeviceToHost));
    // Some rounds have other work between the copy and its use.
    if (round % 5 == 2) {
      Count<<<1, 1>>>(device + 1, host + 1, host + 2);
      CHECK_LAUNCH();
    }
    if (round % 3 == 0) host[3] = round;
    CHECK(cudaStreamSynchronize(nullptr));
    const int more = (round + 3) / 5;
    wrong += host[0] != round;
    wrong += host[1] != round + more;
    wrong += host[2] != 2 * host[1];
    wrong += host[3] != round / 3 * 3;
  }
  EXPECT(wrong == 0, "%d results are wrong", wrong);
  CHECK(cudaFree(device));
  CHECK(cudaFreeHost(host));
  return failures;
}

int CheckAttributes() {
  int failures = 0;
  CHECK(cudaSetDevice(0));
  int value = 0;
  CHECK(cudaDeviceGetAttribute(&value, cudaDevAttrCanMapHostMemory, 0));
  EXPECT(value == 1, "mapping is reported as %d", value);
  char* memory = nullptr;
  CHECK(cudaHostAlloc(&memory, 5000, cudaHostAllocMapped));
  unsigned flags = 0;
  CHECK(cudaHostGetFlags(&flags, memory));
  EXPECT((flags & cudaHostAllocMapped) != 0, "the flags are %u", flags);
  cudaPointerAttributes attributes{};
  CHECK(cudaPointerGetAttributes(&attributes, memory + 7));
  EXPECT(attributes.type == cudaMemoryTypeHost, "the type is %d", attributes.type);
  EXPECT(attributes.devicePointer == memory + 7 && attributes.hostPointer == memory + 7,
         "pointers %p and %p of %p", attributes.devicePointer, attributes.hostPointer,
         static_cast<void*>(memory + 7));
  void* device = nullptr;
  cudaError_t result = cudaHostGetDevicePointer(&device, memory, 1);
  EXPECT(result == cudaErrorInvalidValue, "flags of 1 give %s", cudaGetErrorName(result));
  int local = 0;
  result = cudaHostGetDevicePointer(&device, &local, 0);
  EXPECT(result == cudaErrorInvalidValue, "pageable memory gives %s", cudaGetErrorName(result));
  cudaGetLastError();
  CHECK(cudaFreeHost(memory));
  return failures;
}

// All devices write to neighbouring addresses at the same time. Alternately, one of them waits for
// the others and sums the values.
int CheckHandedOn(int devices, int rounds) {
  constexpr int kCount = 3 << 10, kStride = 1 << 10;
  constexpr size_t kBytes = sizeof(int) * kCount * kStride;
  int failures = 0;
  int* shared = nullptr;
  CHECK(cudaMallocHost(&shared, kBytes));
  std::memset(shared, 0, kBytes);
  std::vector<cudaStream_t> streams(devices);
  std::vector<cudaEvent_t> written(devices);
  std::vector<int*> sums(devices);
  cudaEvent_t summed = nullptr;
  std::vector<cudaEvent_t> all_summed;
  for (int device = 0; device < devices; ++device) {
    CHECK(cudaSetDevice(device));
    CHECK(cudaStreamCreateWithFlags(&streams[device], cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&written[device], cudaEventDisableTiming));
    CHECK(cudaMalloc(&sums[device], rounds * sizeof(int)));
    CHECK(cudaMemsetAsync(sums[device], 0, rounds * sizeof(int), streams[device]));
  }
  for (int round = 0; round < rounds; ++round) {
    for (int device = 0; device < devices; ++device) {
      CHECK(cudaSetDevice(device));
      if (summed != nullptr) CHECK(cudaStreamWaitEvent(streams[device], summed, 0));
      AddAt<<<Blocks(kCount), kThreads, 0, streams[device]>>>(shared, kCount, device, kStride,
                                                              device + 1);
      CHECK_LAUNCH();
      CHECK(cudaEventRecord(written[device], streams[device]));
    }
    const int turn = round % devices;
    CHECK(cudaSetDevice(turn));
    for (const cudaEvent_t event : written) CHECK(cudaStreamWaitEvent(streams[turn], event, 0));
    SumAt<<<Blocks(kCount), kThreads, 0, streams[turn]>>>(sums[turn] + round, shared, kCount,
                                                          kStride, devices);
    CHECK_LAUNCH();
    CHECK(cudaEventCreateWithFlags(&summed, cudaEventDisableTiming));
    CHECK(cudaEventRecord(summed, streams[turn]));
    all_summed.push_back(summed);
  }
  const int a_round = kCount * devices * (devices + 1) / 2;
  for (int device = 0; device < devices; ++device) {
    CHECK(cudaSetDevice(device));
    CHECK(cudaStreamSynchronize(streams[device]));
    std::vector<int> got(rounds);
    CHECK(cudaMemcpy(got.data(), sums[device], rounds * sizeof(int), cudaMemcpyDeviceToHost));
    for (int round = device; round < rounds; round += devices)
      EXPECT(got[round] == (round + 1) * a_round, "device %d, round %d: %d, not %d", device, round,
             got[round], (round + 1) * a_round);
  }
  int wrong = 0;
  for (int i = 0; i < kCount * kStride; ++i) {
    const int device = i % kStride;
    wrong += shared[i] != (device < devices ? rounds * (device + 1) : 0);
  }
  EXPECT(wrong == 0, "%d values that the devices handed on are wrong", wrong);
  for (const cudaEvent_t event : all_summed) CHECK(cudaEventDestroy(event));
  for (int device = 0; device < devices; ++device) {
    CHECK(cudaEventDestroy(written[device]));
    CHECK(cudaStreamDestroy(streams[device]));
    CHECK(cudaFree(sums[device]));
  }
  CHECK(cudaFreeHost(shared));
  CHECK(cudaSetDevice(0));
  return failures;
}

// Sets of page-locked memory not used by kernels.
int CheckSets(unsigned char* (*allocate)(size_t), void (*release)(unsigned char*)) {
  constexpr int kWidth = 24, kPitch = 32, kRows = 5, kBytes = kPitch * kRows;
  int failures = 0;
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  const auto check = [&](unsigned char* bytes, int width, unsigned char value) {
    for (int i = 0; i < kBytes; ++i) failures += bytes[i] != (i % kPitch < width ? value : 0xff);
    release(bytes);
  };
  unsigned char* bytes = allocate(kBytes);
  CHECK(cudaMemset(bytes, 1, kBytes));
  check(bytes, kPitch, 1);
  // Bytes written by the host in between are overwritten, even by an equal set.
  bytes = allocate(kBytes);
  for (int round = 0; round < 3; ++round) {
    CHECK(cudaMemset(bytes, 1, kBytes));
    for (int i = 0; i < kBytes; ++i) failures += bytes[i] != 1;
    std::memset(bytes, 7, kBytes);
  }
  CHECK(cudaMemset(bytes, 1, kBytes));
  check(bytes, kPitch, 1);
  bytes = allocate(kBytes);
  CHECK(cudaMemsetAsync(bytes, 2, kBytes, stream));
  CHECK(cudaStreamSynchronize(stream));
  check(bytes, kPitch, 2);
  bytes = allocate(kBytes);
  CHECK(cudaMemset2DAsync(bytes, kPitch, 3, kWidth, kRows, stream));
  CHECK(cudaStreamSynchronize(stream));
  check(bytes, kWidth, 3);

  bytes = allocate(kBytes);
  cudaMemsetParams set{};
  set.dst = bytes;
  set.pitch = kPitch;
  set.value = 0x04040404;
  set.elementSize = 4;
  set.width = kWidth / 4;
  set.height = kRows;
  cudaGraph_t graph;
  cudaGraphNode_t node;
  cudaGraphExec_t exec;
  CHECK(cudaGraphCreate(&graph, 0));
  CHECK(cudaGraphAddMemsetNode(&node, graph, nullptr, 0, &set));
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  CHECK(cudaGraphLaunch(exec, stream));
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
  check(bytes, kWidth, 4);
  CHECK(cudaStreamDestroy(stream));
  return failures;
}

template <unsigned kFlags>
unsigned char* Allocate(size_t count) {
  unsigned char* bytes = nullptr;
  CHECK(cudaHostAlloc(&bytes, count, kFlags));
  std::memset(bytes, 0xff, count);
  return bytes;
}

void Release(unsigned char* bytes) { CHECK(cudaFreeHost(bytes)); }

unsigned char* Register(size_t count) {
  auto* const bytes = new unsigned char[count];
  std::memset(bytes, 0xff, count);
  CHECK(cudaHostRegister(bytes, count, cudaHostRegisterDefault));
  return bytes;
}

void Unregister(unsigned char* bytes) {
  CHECK(cudaHostUnregister(bytes));
  delete[] bytes;
}

}  // namespace

int main(int argc, char** argv) {
  const int count = static_cast<int>(NumberArgument(argc, argv, 1, 100000, 100, 1 << 26));
  const int devices = DeviceCount();
  int failures = CheckKernels(devices, count, cudaHostAllocMapped);
  failures += CheckKernels(devices, count, cudaHostAllocMapped | cudaHostAllocPortable);
  failures += CheckKernels(devices, count, cudaHostAllocDefault);
  CHECK(cudaSetDevice(0));
  failures += CheckSets(Allocate<cudaHostAllocDefault>, Release);
  failures += CheckSets(Allocate<cudaHostAllocMapped>, Release);
  failures += CheckSets(Register, Unregister);
  failures += CheckHalves(count);
  failures += CheckBytes(count);
  failures += CheckCopies(count);
  failures += CheckResults(60);
  failures += CheckHandedOn(devices, 6);
  failures += CheckAttributes();
  std::printf("mapped: %d elements on %d %s: %s\n", count, devices, Devices(devices),
              Verdict(failures));
  return ExitStatus(failures);
}

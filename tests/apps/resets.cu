// A program resetting its device and using it again, from the same thread and from others. All its
// earlier objects are gone.
//
//   resets [ROUNDS [fault]]
//
// "fault" also requires a working device after a fault in a kernel and a reset. CUDA does not
// guarantee this: it requires a restart of the process.
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "check.h"

namespace {

constexpr int kCount = 5000;
constexpr unsigned kThreads = 128;

__device__ int added = 3;
__managed__ int managed = 5;

__global__ void Add(int* values, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) values[i] += added;
}

__global__ void Grow() { ++managed; }

// Uses several kinds of objects on the current device.
int Work(int round) {
  int failures = 0;
  int* values = nullptr;
  cudaStream_t stream;
  cudaEvent_t event;
  CHECK(cudaMalloc(&values, kCount * sizeof(int)));
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaEventCreate(&event));
  std::vector<int> host(kCount, round);
  CHECK(cudaMemcpyAsync(values, host.data(), kCount * sizeof(int), cudaMemcpyHostToDevice, stream));
  Add<<<(kCount + kThreads - 1) / kThreads, kThreads, 0, stream>>>(values, kCount);
  CHECK_LAUNCH();
  CHECK(cudaEventRecord(event, stream));
  CHECK(cudaMemcpyAsync(host.data(), values, kCount * sizeof(int), cudaMemcpyDeviceToHost, stream));
  CHECK(cudaEventSynchronize(event));
  CHECK(cudaStreamSynchronize(stream));
  long wrong = 0;
  for (const int value : host) wrong += value != round + 3;
  EXPECT(wrong == 0, "%ld values are wrong in round %d", wrong, round);
  // Not freed or destroyed: the reset does it.
  return failures;
}

// Symbols have their initial values again, and managed ones are usable by kernels and the host.
int CheckVariables() {
  int failures = 0;
  int value = 0;
  CHECK(cudaMemcpyFromSymbol(&value, added, sizeof value));
  EXPECT(value == 3, "the variable is %d", value);
  value = 10;
  CHECK(cudaMemcpyToSymbol(added, &value, sizeof value));
  CHECK(cudaDeviceReset());
  CHECK(cudaMemcpyFromSymbol(&value, added, sizeof value));
  EXPECT(value == 3, "the variable is %d after a reset", value);
  return failures;
}

int CheckGoneHandles() {
  int failures = 0;
  int* values = nullptr;
  cudaStream_t stream;
  cudaEvent_t event;
  CHECK(cudaMalloc(&values, 100));
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaEventCreate(&event));
  CHECK(cudaEventRecord(event, stream));
  CHECK(cudaDeviceReset());
  EXPECT(cudaFree(values) != cudaSuccess, "memory from before");
  cudaGetLastError();
  // A new stream differs from old ones.
  cudaStream_t another;
  CHECK(cudaStreamCreate(&another));
  CHECK(cudaStreamSynchronize(another));
  CHECK(cudaStreamDestroy(another));
  return failures;
}

// Earlier memory of pools and graphs is freed: the same amount can be allocated again, and freed.
int CheckMemoryComesBack() {
  int failures = 0;
  std::size_t free_before = 0, total = 0;
  CHECK(cudaMemGetInfo(&free_before, &total));
  const std::size_t large = total / 3 * 2;
  for (int round = 0; round < 2; ++round) {
    cudaGraph_t graph;
    cudaGraphNode_t node;
    cudaMemAllocNodeParams parameters{};
    parameters.poolProps.allocType = cudaMemAllocationTypePinned;
    parameters.poolProps.location.type = cudaMemLocationTypeDevice;
    parameters.poolProps.location.id = 0;
    parameters.bytesize = 1 << 20;
    CHECK(cudaGraphCreate(&graph, 0));
    CHECK(cudaGraphAddMemAllocNode(&node, graph, nullptr, 0, &parameters));
    void* pooled = nullptr;
    CHECK(cudaMallocAsync(&pooled, 1 << 20, nullptr));
    CHECK(cudaDeviceReset());
    for (int i = 0; i < 3; ++i) {
      char* block = nullptr;
      CHECK(cudaMalloc(&block, large));
      CHECK(cudaMemset(block + large - 1, i, 1));
      char last = 0;
      CHECK(cudaMemcpy(&last, block + large - 1, 1, cudaMemcpyDeviceToHost));
      EXPECT(last == i, "the last byte is %d in round %d", last, i);
      CHECK(cudaFree(block));
    }
    CHECK(cudaMallocAsync(&pooled, large, nullptr));
    CHECK(cudaFreeAsync(pooled, nullptr));
    CHECK(cudaDeviceSynchronize());
  }
  return failures;
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = static_cast<int>(NumberArgument(argc, argv, 1, 6, 1, 10000));
  const bool fault = argc == 3 && std::strcmp(argv[2], "fault") == 0;
  if (argc > 2 && !fault) {
    std::fprintf(stderr, "usage: %s [ROUNDS [fault]]\n", argv[0]);
    return 2;
  }
  CHECK(cudaDeviceReset());  // Before any object exists.
  int failures = 0;
  for (int round = 0; round < rounds; ++round) {
    failures += Work(round);
    CHECK(cudaDeviceReset());
  }
  for (int round = 0; round < rounds; ++round) {
    int of_thread = 0;
    std::thread([&] { of_thread = Work(round); }).join();
    failures += of_thread;
    CHECK(cudaDeviceReset());
  }
  failures += CheckVariables() + CheckGoneHandles() + CheckMemoryComesBack();
  Grow<<<1, 1>>>();
  CHECK_LAUNCH();
  CHECK(cudaDeviceSynchronize());
  EXPECT(managed == 6, "the managed variable is %d", managed);
  if (fault) {
    Add<<<1, 1>>>(reinterpret_cast<int*>(std::uintptr_t{64}), 1);
    EXPECT(cudaDeviceSynchronize() != cudaSuccess, "a bad address");
    CHECK(cudaDeviceReset());
    cudaGetLastError();
    failures += Work(1);
  }
  std::printf("resets: %d rounds%s: %s\n", rounds, fault ? ", a fault" : "", Verdict(failures));
  return ExitStatus(failures);
}

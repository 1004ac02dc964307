// The driver API and the runtime in one program: memory, streams, events and kernels of one are
// usable by the other, in one thread and in several.
//
//   driver_mixed
#include <cuda.h>

#include <cstdio>
#include <thread>
#include <vector>

#include "driver_check.h"

namespace {

int failures = 0;

constexpr int kCount = 1 << 12;

__global__ void AddOne(int* words, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) words[i] += 1;
}

// The runtime's memory and kernel in a stream of the driver, with an event of each.
void CheckOneThread() {
  int* words = nullptr;
  CHECK(cudaMalloc(&words, kCount * sizeof(int)));
  CUcontext context = nullptr;
  DRIVER(cuCtxGetCurrent(&context));
  EXPECT(context != nullptr, "the runtime's context is not current");
  unsigned flags = 0;
  int active = 0;
  DRIVER(cuDevicePrimaryCtxGetState(0, &flags, &active));
  EXPECT(active == 1, "%d", active);
  CUstream stream = nullptr;
  DRIVER(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  DRIVER(cuMemsetD32Async(reinterpret_cast<CUdeviceptr>(words), 41, kCount, stream));
  AddOne<<<kCount / 256, 256, 0, stream>>>(words, kCount);
  CHECK_LAUNCH();
  CUevent event = nullptr;
  DRIVER(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  CHECK(cudaEventRecord(event, stream));
  DRIVER(cuEventSynchronize(event));
  std::vector<int> read(kCount);
  DRIVER(cuMemcpyDtoH(read.data(), reinterpret_cast<CUdeviceptr>(words), kCount * sizeof(int)));
  EXPECT(read.front() == 42 && read.back() == 42, "%d, %d", read.front(), read.back());
  // The runtime keeps its context, independent of the driver's users.
  DRIVER(cuDevicePrimaryCtxRetain(&context, 0));
  DRIVER(cuDevicePrimaryCtxRelease(0));
  CHECK(cudaMemset(words, 0, kCount * sizeof(int)));
  DRIVER(cuEventDestroy(event));
  CHECK(cudaStreamDestroy(stream));
  DRIVER(cuMemFree(reinterpret_cast<CUdeviceptr>(words)));
}

// A capture begun by one and ended by the other.
void CheckCapture() {
  int* words = nullptr;
  CHECK(cudaMalloc(&words, kCount * sizeof(int)));
  CHECK(cudaMemset(words, 0, kCount * sizeof(int)));
  CHECK(cudaDeviceSynchronize());  // The stream is non-blocking.
  cudaStream_t stream = nullptr;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  DRIVER(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  AddOne<<<kCount / 256, 256, 0, stream>>>(words, kCount);
  CHECK_LAUNCH();
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  DRIVER(cuStreamIsCapturing(stream, &status));
  EXPECT(status == CU_STREAM_CAPTURE_STATUS_ACTIVE, "%d", static_cast<int>(status));
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t exec = nullptr;
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  for (int i = 0; i < 3; ++i) CHECK(cudaGraphLaunch(exec, stream));
  DRIVER(cuStreamSynchronize(stream));
  int last = 0;
  CHECK(cudaMemcpy(&last, words + kCount - 1, sizeof last, cudaMemcpyDeviceToHost));
  EXPECT(last == 3, "%d", last);
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaFree(words));
}

// Each thread has its own stack of contexts.
void CheckThreads() {
  CUcontext context = nullptr;
  DRIVER(cuDevicePrimaryCtxRetain(&context, 0));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([context, t] {
      CUcontext current = context;
      DRIVER(cuCtxGetCurrent(&current));
      if (current != nullptr) std::fprintf(stderr, "thread %d begins with a context\n", t);
      for (int i = 0; i < 50; ++i) {
        DRIVER(cuCtxPushCurrent(context));
        CUdeviceptr memory = 0;
        DRIVER(cuMemAlloc(&memory, 4096));
        DRIVER(cuMemsetD8(memory, static_cast<unsigned char>(t), 4096));
        unsigned char last = 255;
        DRIVER(cuMemcpyDtoH(&last, memory + 4095, 1));
        if (last != t) {
          std::fprintf(stderr, "thread %d reads %d\n", t, last);
          std::exit(EXIT_FAILURE);
        }
        DRIVER(cuMemFree(memory));
        DRIVER(cuCtxPopCurrent(&current));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  DRIVER(cuDevicePrimaryCtxRelease(0));
}

}  // namespace

int main() {
  CHECK(cudaSetDevice(0));
  CheckOneThread();
  CheckCapture();
  CheckThreads();
  CHECK(cudaDeviceReset());
  std::printf("driver_mixed: %s\n", Verdict(failures));
  return ExitStatus(failures);
}

// Kernels' output appears in order with the program's output, at every kind of wait. A failed
// assertion prints its location.
//
//   kernel_output [assert | abort]
#include <cassert>
#include <cstring>
#include <vector>

#include "check.h"

namespace {

__global__ void Say(int number) { printf("kernel %d, thread %d\n", number, threadIdx.x); }
__global__ void SayMuch(int lines) {
  for (int i = 0; i < lines; ++i) printf("line %d of a kernel that says much\n", i);
}
__device__ __noinline__ void Tell(int number) { printf("kernel %d, in a function\n", number); }
__device__ void (*tell)(int) = Tell;
__global__ void SayInFunction(int number) { Tell(number); }
__global__ void SayByPointer(int number) { tell(number); }
__global__ void SayNothing(int* word) { ++*word; }
__global__ void Fail(int limit) { assert(static_cast<int>(threadIdx.x) < limit); }

void Print() {
  std::printf("program 0\n");
  Say<<<1, 2>>>(1);
  CHECK(cudaDeviceSynchronize());
  std::printf("program 1: device\n");
  cudaStream_t stream = nullptr;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  Say<<<1, 1, 0, stream>>>(2);
  CHECK(cudaStreamSynchronize(stream));
  std::printf("program 2: stream\n");
  cudaEvent_t event = nullptr;
  CHECK(cudaEventCreate(&event));
  Say<<<1, 1, 0, stream>>>(3);
  CHECK(cudaEventRecord(event, stream));
  CHECK(cudaEventSynchronize(event));
  std::printf("program 3: event\n");
  int* memory = nullptr;
  int value = 0;
  CHECK(cudaMalloc(&memory, sizeof *memory));
  Say<<<1, 1>>>(4);
  CHECK(cudaMemcpy(&value, memory, sizeof value, cudaMemcpyDeviceToHost));
  std::printf("program 4: copy\n");
  SayMuch<<<1, 1>>>(2000);
  CHECK(cudaDeviceSynchronize());
  std::printf("program 5: much\n");
  // The same if the last request to the device is a copy to it.
  std::vector<char> bytes(1 << 20, 1);
  char* many = nullptr;
  CHECK(cudaMalloc(&many, bytes.size()));
  Say<<<1, 1>>>(7);
  CHECK(cudaMemcpy(many, bytes.data(), bytes.size(), cudaMemcpyHostToDevice));
  while (cudaStreamQuery(nullptr) == cudaErrorNotReady) {
  }
  CHECK(cudaDeviceSynchronize());
  std::printf("program 8: copy to the device\n");
  CHECK(cudaFree(many));
  // The owner of the stream's lock may wait for a printing kernel.
  flockfile(stdout);
  Say<<<1, 1>>>(5);
  CHECK(cudaDeviceSynchronize());
  std::printf("program 6: locked, device\n");
  Say<<<1, 1, 0, stream>>>(6);
  CHECK(cudaEventRecord(event, stream));
  CHECK(cudaEventSynchronize(event));
  std::printf("program 7: locked, event\n");
  funlockfile(stdout);
  // Kernels printing nothing, in the same module, before and after others.
  CHECK(cudaMemset(memory, 0, sizeof *memory));
  for (int number = 9; number < 12; ++number) {
    SayNothing<<<1, 1, 0, stream>>>(memory);
    CHECK(cudaStreamSynchronize(stream));
    SayInFunction<<<1, 1, 0, stream>>>(number);
    SayNothing<<<1, 1, 0, stream>>>(memory);
    CHECK(cudaStreamSynchronize(stream));
    std::printf("program 9: quiet\n");
  }
  CHECK(cudaMemcpy(&value, memory, sizeof value, cudaMemcpyDeviceToHost));
  std::printf("program 9: %d\n", value);
  SayByPointer<<<1, 1, 0, stream>>>(12);
  CHECK(cudaStreamSynchronize(stream));
  std::printf("program 10: pointer\n");
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  Say<<<1, 1, 0, stream>>>(13);
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  for (int i = 0; i < 2; ++i) {
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    std::printf("program 11: graph\n");
  }
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaFree(memory));
  CHECK(cudaEventDestroy(event));
  CHECK(cudaStreamDestroy(stream));
}

}  // namespace

int main(int argc, char** argv) {
  DeviceCount();
  Print();
  if (argc > 1 && std::strcmp(argv[1], "assert") == 0) {
    Fail<<<1, 4>>>(3);
    const cudaError_t error = cudaDeviceSynchronize();
    std::fprintf(stderr, "program: %s\n", cudaGetErrorName(error));
    // Exits at once, like programs checking their calls.
    std::exit(error == cudaErrorAssert ? 3 : EXIT_FAILURE);
  }
  std::printf("kernel_output: PASS\n");
  if (argc > 1 && std::strcmp(argv[1], "abort") == 0) {
    // The kernel's output is flushed, together with earlier output of the program.
    Say<<<1, 1>>>(8);
    CHECK(cudaDeviceSynchronize());
    std::abort();
  }
}

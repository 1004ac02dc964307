// CUDA calls in threads with small stacks, like those of task libraries and fibers.
//
//   small_stacks [KIB [first]]
//
//   KIB: size of the stack. Natively, these calls need more than 32 (driver 580).
//   first: a thread of this kind makes also the first CUDA calls of the process.
#include <pthread.h>

#include <cstring>

#include "check.h"

namespace {

long failures = 0;

struct Large {
  int values[1000];  // 4,000 bytes, near the limit of kernels before CUDA 12.1.
};

__global__ void Add(int* to, int what) { *to += what; }
__global__ void AddLast(int* to, Large large) { *to += large.values[999]; }
__device__ int symbol;

// All common calls. Large objects are not on the stack.
void CallAll() {
  static Large large;
  static char host[1 << 20];
  constexpr size_t kBytes = sizeof host;
  large.values[999] = 5;
  int value = 0;
  int* word = nullptr;
  char* bytes = nullptr;
  cudaStream_t stream = nullptr;
  cudaEvent_t events[2] = {};
  CHECK(cudaSetDevice(0));
  CHECK(cudaMalloc(&word, sizeof *word));
  CHECK(cudaMalloc(&bytes, kBytes));
  CHECK(cudaMemset(word, 0, sizeof *word));
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (cudaEvent_t& event : events) CHECK(cudaEventCreate(&event));

  // Launches.
  CHECK(cudaDeviceSynchronize());
  Add<<<1, 1, 0, stream>>>(word, 1);
  CHECK_LAUNCH();
  // A call with <<<…>>> would put the argument on this stack.
  void* arguments[] = {&word, &large};
  for (int i = 0; i < 2; ++i)
    CHECK(cudaLaunchKernel(reinterpret_cast<const void*>(AddLast), 1, 1, arguments, 0, stream));
  CHECK(cudaEventRecord(events[0], stream));
  CHECK(cudaLaunchHostFunc(
      stream, [](void*) {}, nullptr));
  CHECK(cudaEventRecord(events[1], stream));
  CHECK(cudaEventSynchronize(events[1]));
  float milliseconds = -1;
  CHECK(cudaEventElapsedTime(&milliseconds, events[0], events[1]));
  CHECK(cudaMemcpy(&value, word, sizeof value, cudaMemcpyDeviceToHost));
  EXPECT(value == 11, "it is %d", value);

  // Copies of all sizes.
  std::memset(host, 'a', kBytes);
  for (const size_t size : {size_t{1}, size_t{5000}, size_t{70000}, kBytes}) {
    CHECK(cudaMemcpyAsync(bytes, host, size, cudaMemcpyHostToDevice, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemcpy(host, bytes, size, cudaMemcpyDeviceToHost));
  }
  CHECK(cudaMemcpy2D(bytes, 512, host, 256, 256, 64, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpyToSymbol(symbol, &value, sizeof value));
  CHECK(cudaMemcpyFromSymbol(&value, symbol, sizeof value));

  // Other kinds of memory.
  void* memory = nullptr;
  CHECK(cudaMallocAsync(&memory, 4096, stream));
  CHECK(cudaFreeAsync(memory, stream));
  CHECK(cudaHostAlloc(&memory, 4096, cudaHostAllocMapped));
  CHECK(cudaFreeHost(memory));
  CHECK(cudaHostRegister(host, kBytes, cudaHostRegisterDefault));
  CHECK(cudaMemcpyAsync(bytes, host, kBytes, cudaMemcpyHostToDevice, stream));
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaHostUnregister(host));
  CHECK(cudaMallocManaged(&memory, 4096));
  *static_cast<int*>(memory) = 0;
  Add<<<1, 1, 0, stream>>>(static_cast<int*>(memory), 1);
  CHECK_LAUNCH();
  CHECK(cudaStreamSynchronize(stream));
  EXPECT(*static_cast<int*>(memory) == 1, "it is %d", *static_cast<int*>(memory));
  CHECK(cudaFree(memory));
  cudaArray_t array = nullptr;
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  CHECK(cudaMallocArray(&array, &format, 16, 16));
  CHECK(cudaFreeArray(array));

  // A graph.
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  CHECK(cudaLaunchKernel(reinterpret_cast<const void*>(AddLast), 1, 1, arguments, 0, stream));
  CHECK(cudaMemsetAsync(bytes, 0, 100, stream));
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  for (int i = 0; i < 3; ++i) CHECK(cudaGraphLaunch(exec, stream));
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));

  // Queries, and errors with their texts.
  static cudaDeviceProp properties;
  CHECK(cudaGetDeviceProperties(&properties, 0));
  cudaFuncAttributes attributes;
  CHECK(cudaFuncGetAttributes(&attributes, AddLast));
  int blocks = 0;
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, Add, 128, 0));
  cudaPointerAttributes of_pointer;
  CHECK(cudaPointerGetAttributes(&of_pointer, bytes));
  size_t unused = 0;
  size_t total = 0;
  CHECK(cudaMemGetInfo(&unused, &total));
  EXPECT(cudaMemcpy(bytes, host, size_t{1} << 40, cudaMemcpyHostToDevice) != cudaSuccess,
         "beyond the end");
  EXPECT(cudaGetLastError() != cudaSuccess, "the last error");
  EXPECT(cudaFree(host) != cudaSuccess, "no memory of a device");
  EXPECT(std::strlen(cudaGetErrorString(cudaGetLastError())) != 0, "a text");

  for (const cudaEvent_t event : events) CHECK(cudaEventDestroy(event));
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaFree(bytes));
  CHECK(cudaFree(word));
  CHECK(cudaDeviceSynchronize());
}

void CallAllWith(size_t stack) {
  pthread_attr_t attributes;
  pthread_t thread;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, stack);
  const int started = pthread_create(
      &thread, &attributes,
      [](void*) -> void* {
        CallAll();
        return nullptr;
      },
      nullptr);
  EXPECT(started == 0, "a thread with %zu bytes of stack", stack);
  if (started == 0) pthread_join(thread, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  const long kib = NumberArgument(argc, argv, 1, 48, 16, 1 << 20);
  const bool first = argc > 2 && std::strcmp(argv[2], "first") == 0;
  if (!first) CallAll();
  CallAllWith(static_cast<size_t>(kib) << 10);
  std::printf("small_stacks: %ld KiB: %s\n", kib, Verdict(failures));
  return ExitStatus(failures);
}

// Impossible sizes, and limits set too late: the driver refuses them (measured natively, driver
// 580).
#include <cstdint>
#include <cstdlib>

#include "check.h"

namespace {

__global__ void Nothing() {}
__global__ void Print(int times) {
  if (times > 0) printf("%d\n", times);
}
__global__ void Allocate(int bytes) {
  if (bytes > 0) free(malloc(bytes));
}

}  // namespace

int main() {
  int failures = 0;
  const auto is = [&](const char* what, cudaError_t got, cudaError_t wanted) {
    EXPECT(got == wanted, "%s: %s, not %s", what, cudaGetErrorName(got), cudaGetErrorName(wanted));
    cudaGetLastError();
  };
  // The sizes of printf's buffer and of the heap are fixed at the launch of a kernel able to use
  // them, used or not. Another size is refused from then on, until a reset of the device.
  const auto set = [](cudaLimit limit) { return cudaDeviceSetLimit(limit, 32 << 20); };
  Nothing<<<1, 1>>>();
  is("the buffer before printing", set(cudaLimitPrintfFifoSize), cudaSuccess);
  is("the heap before printing", set(cudaLimitMallocHeapSize), cudaSuccess);
  Print<<<1, 1>>>(0);
  is("the buffer after printing", set(cudaLimitPrintfFifoSize), cudaErrorInvalidValue);
  is("the heap after printing", set(cudaLimitMallocHeapSize), cudaSuccess);
  Allocate<<<1, 1>>>(0);
  is("the heap after allocating", set(cudaLimitMallocHeapSize), cudaErrorInvalidValue);
  CHECK(cudaDeviceReset());
  is("the buffer after the reset", set(cudaLimitPrintfFifoSize), cudaSuccess);
  is("the heap after the reset", set(cudaLimitMallocHeapSize), cudaSuccess);
  CHECK(cudaDeviceReset());
  // The stack of a thread, the fetch granularity, and the persisting part of the cache have upper
  // limits.
  for (const cudaLimit limit :
       {cudaLimitStackSize, cudaLimitMaxL2FetchGranularity, cudaLimitPersistingL2CacheSize}) {
    std::size_t before = 0, after = 0;
    CHECK(cudaDeviceGetLimit(&before, limit));
    is("a limit of SIZE_MAX", cudaDeviceSetLimit(limit, SIZE_MAX), cudaErrorInvalidValue);
    CHECK(cudaDeviceGetLimit(&after, limit));
    EXPECT(after == before, "limit %d became %zu", limit, after);
  }
  // These are hints without upper limits.
  for (const cudaLimit limit :
       {cudaLimitPrintfFifoSize, cudaLimitMallocHeapSize, cudaLimitDevRuntimePendingLaunchCount})
    is("a wish of SIZE_MAX", cudaDeviceSetLimit(limit, SIZE_MAX), cudaSuccess);

  char *first = nullptr, *second = nullptr, *pinned = nullptr;
  static char host[4096];
  CHECK(cudaMalloc(&first, 4096));
  CHECK(cudaMalloc(&second, 4096));
  CHECK(cudaMallocHost(&pinned, 4096));
  cudaGraph_t graph;
  cudaGraphNode_t node;
  CHECK(cudaGraphCreate(&graph, 0));
  const struct {
    void* to;
    const void* from;
    cudaMemcpyKind kind;
  } copies[] = {{first, host, cudaMemcpyHostToDevice},
                {host, first, cudaMemcpyDeviceToHost},
                {first, second, cudaMemcpyDeviceToDevice},
                {first, host, cudaMemcpyDefault},
                {first, pinned, cudaMemcpyHostToDevice}};
  for (const auto& copy : copies) {
    for (const std::size_t bytes : {SIZE_MAX, SIZE_MAX / 2, std::size_t{1} << 40, std::size_t{0}}) {
      is("a node of too many bytes, or none",
         cudaGraphAddMemcpyNode1D(&node, graph, nullptr, 0, copy.to, copy.from, bytes, copy.kind),
         cudaErrorInvalidValue);
    }
    CHECK(cudaGraphAddMemcpyNode1D(&node, graph, nullptr, 0, copy.to, copy.from, 4096, copy.kind));
    is("parameters of too many bytes",
       cudaGraphMemcpyNodeSetParams1D(node, copy.to, copy.from, SIZE_MAX, copy.kind),
       cudaErrorInvalidValue);
  }
  is("a node on the host without bytes",
     cudaGraphAddMemcpyNode1D(&node, graph, nullptr, 0, host, pinned, 0, cudaMemcpyHostToHost),
     cudaErrorInvalidValue);
  for (const std::size_t bytes : {SIZE_MAX, std::size_t{1} << 48})
    is("a copy of too many bytes", cudaMemcpy(first, host, bytes, cudaMemcpyHostToDevice),
       cudaErrorInvalidValue);
  std::printf("limits: %s\n", failures == 0 ? "PASS" : "FAIL");
  return failures == 0 ? 0 : 1;
}

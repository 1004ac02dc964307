// Graphs: built by hand and captured from streams, launched repeatedly, changed and copied. Also
// with host functions, their own memory and child graphs.
//
//   graphs [launches]     default 10
#include <vector>

#include "check.h"
#include "releases.h"

namespace {

int failures = 0;
constexpr int kCount = 5000;
constexpr int kBlocks = (kCount + 255) / 256;
constexpr std::size_t kBytes = kCount * sizeof(int);

__global__ void Add(int* to, int count, int what) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) to[i] += what;
}
__global__ void Sum(int* to, const int* a, const int* b, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) to[i] = a[i] + b[i];
}

int* Zeros() {
  int* data = nullptr;
  CHECK(cudaMalloc(&data, kBytes));
  CHECK(cudaMemset(data, 0, kBytes));
  return data;
}

void ExpectAll(const int* device, int expected, const char* what) {
  std::vector<int> got(kCount);
  CHECK(cudaMemcpy(got.data(), device, kBytes, cudaMemcpyDeviceToHost));
  long wrong = 0;
  for (const int value : got) wrong += value != expected;
  EXPECT(wrong == 0, "%s: %ld values are not %d; the first is %d", what, wrong, expected, got[0]);
}

void Increment(void* counter) { ++*static_cast<int*>(counter); }

// Two joined branches, captured over two streams. Each launch reads the host's memory again.
void Capture(int launches) {
  cudaStream_t first = nullptr, second = nullptr;
  cudaEvent_t fork = nullptr, join = nullptr;
  CHECK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
  CHECK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
  CHECK(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
  int *a = Zeros(), *b = Zeros(), *sum = Zeros();
  int *in = nullptr, *out = nullptr;
  int calls = 0;
  CHECK(cudaMallocHost(&in, kBytes));
  CHECK(cudaMallocHost(&out, kBytes));
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaStreamBeginCapture(first, cudaStreamCaptureModeGlobal));
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  CHECK(cudaStreamIsCapturing(first, &status));
  EXPECT(status == cudaStreamCaptureStatusActive, "status %d", static_cast<int>(status));
  CHECK(cudaMemcpyAsync(a, in, kBytes, cudaMemcpyHostToDevice, first));
  CHECK(cudaEventRecord(fork, first));
  CHECK(cudaStreamWaitEvent(second, fork, 0));
  CHECK(cudaMemsetAsync(b, 0, kBytes, second));
  Add<<<kBlocks, 256, 0, second>>>(b, kCount, 100);
  Add<<<kBlocks, 256, 0, first>>>(a, kCount, 1);
  CHECK(cudaEventRecord(join, second));
  CHECK(cudaStreamWaitEvent(first, join, 0));
  Sum<<<kBlocks, 256, 0, first>>>(sum, a, b, kCount);
  CHECK_LAUNCH();
  CHECK(cudaMemcpyAsync(out, sum, kBytes, cudaMemcpyDeviceToHost, first));
  CHECK(cudaLaunchHostFunc(first, Increment, &calls));
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(first, &graph));
  CHECK(cudaStreamIsCapturing(first, &status));
  EXPECT(status == cudaStreamCaptureStatusNone, "still capturing");
  ExpectAll(sum, 0, "nothing runs while it is captured");
  std::size_t nodes = 0, edges = 0, roots = 0;
  CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
  CHECK(CountEdges(graph, &edges));
  CHECK(cudaGraphGetRootNodes(graph, nullptr, &roots));
  EXPECT(nodes == 7 && edges == 7 && roots == 1, "%zu nodes, %zu edges, %zu roots", nodes, edges,
         roots);
  cudaGraphExec_t exec = nullptr;
  CHECK(Instantiate(&exec, graph));
  CHECK(cudaGraphDestroy(graph));
  for (int launch = 0; launch < launches; ++launch) {
    for (int i = 0; i < kCount; ++i) in[i] = launch * 10;
    CHECK(cudaGraphLaunch(exec, first));
    CHECK(cudaStreamSynchronize(first));
    EXPECT(calls == launch + 1, "%d calls of the host", calls);
    long wrong = 0;
    for (int i = 0; i < kCount; ++i) wrong += out[i] != launch * 10 + 101;
    EXPECT(wrong == 0, "launch %d: %ld wrong", launch, wrong);
  }
  CHECK(cudaGraphExecDestroy(exec));
  for (int* memory : {a, b, sum}) CHECK(cudaFree(memory));
  CHECK(cudaFreeHost(in));
  CHECK(cudaFreeHost(out));
  CHECK(cudaEventDestroy(fork));
  CHECK(cudaEventDestroy(join));
  CHECK(cudaStreamDestroy(first));
  CHECK(cudaStreamDestroy(second));
}

cudaGraphNode_t AddKernel(cudaGraph_t graph, const std::vector<cudaGraphNode_t>& before, int* to,
                          int what) {
  int count = kCount;
  void* arguments[] = {&to, &count, &what};
  cudaKernelNodeParams parameters{};
  parameters.func = reinterpret_cast<void*>(Add);
  parameters.gridDim = dim3(kBlocks);
  parameters.blockDim = dim3(256);
  parameters.kernelParams = arguments;
  cudaGraphNode_t node = nullptr;
  CHECK(cudaGraphAddKernelNode(&node, graph, before.data(), before.size(), &parameters));
  return node;
}

// Nodes by hand; then other parameters in the executable graph, and an update from a changed graph.
void ByHand() {
  int *data = Zeros(), *copy = Zeros();
  cudaStream_t stream = nullptr;
  CHECK(cudaStreamCreate(&stream));
  cudaGraph_t graph = nullptr;
  CHECK(cudaGraphCreate(&graph, 0));
  cudaMemsetParams set{};
  set.dst = data;
  set.value = 5;
  set.elementSize = 4;
  set.width = kCount;
  set.height = 1;
  cudaGraphNode_t memset_node = nullptr, copy_node = nullptr, empty = nullptr;
  CHECK(cudaGraphAddMemsetNode(&memset_node, graph, nullptr, 0, &set));
  CHECK(cudaGraphAddEmptyNode(&empty, graph, &memset_node, 1));
  const cudaGraphNode_t add = AddKernel(graph, {empty}, data, 10);
  CHECK(cudaGraphAddMemcpyNode1D(&copy_node, graph, &add, 1, copy, data, kBytes,
                                 cudaMemcpyDeviceToDevice));
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  CHECK(cudaGraphNodeGetType(add, &type));
  EXPECT(type == cudaGraphNodeTypeKernel, "type %d", static_cast<int>(type));
  std::size_t count = 0;
  CHECK(CountDependencies(add, &count));
  EXPECT(count == 1, "%zu dependencies", count);
  cudaKernelNodeParams told{};
  CHECK(cudaGraphKernelNodeGetParams(add, &told));
  EXPECT(told.gridDim.x == kBlocks && *static_cast<int*>(told.kernelParams[2]) == 10,
         "other parameters");
  cudaGraphExec_t exec = nullptr;
  CHECK(Instantiate(&exec, graph));
  CHECK(cudaGraphLaunch(exec, stream));
  CHECK(cudaStreamSynchronize(stream));
  ExpectAll(copy, 15, "a graph by hand");

  set.value = 7;
  CHECK(cudaGraphExecMemsetNodeSetParams(exec, memset_node, &set));
  int what = 20, number = kCount;
  void* arguments[] = {&data, &number, &what};
  told.kernelParams = arguments;
  CHECK(cudaGraphExecKernelNodeSetParams(exec, add, &told));
  CHECK(cudaGraphLaunch(exec, stream));
  CHECK(cudaStreamSynchronize(stream));
  ExpectAll(copy, 27, "other parameters in the executable graph");
  CHECK(cudaGraphNodeSetEnabled(exec, add, 0));
  CHECK(cudaGraphLaunch(exec, stream));
  CHECK(cudaStreamSynchronize(stream));
  ExpectAll(copy, 7, "a kernel left out");
  CHECK(cudaGraphNodeSetEnabled(exec, add, 1));

  // The graph itself has kept its own parameters. An update restores them.
  cudaGraphExecUpdateResult result{};
  CHECK(Update(exec, graph, &result));
  EXPECT(result == cudaGraphExecUpdateSuccess, "update says %d", static_cast<int>(result));
  CHECK(cudaGraphLaunch(exec, stream));
  CHECK(cudaStreamSynchronize(stream));
  ExpectAll(copy, 15, "after an update");
  AddKernel(graph, {copy_node}, copy, 1);
  EXPECT(Update(exec, graph, &result) == cudaErrorGraphExecUpdateFailure, "another topology");
  EXPECT(result == cudaGraphExecUpdateErrorTopologyChanged, "update says %d",
         static_cast<int>(result));
  static_cast<void>(cudaGetLastError());

  // A copy has its own nodes.
  cudaGraph_t clone = nullptr;
  CHECK(cudaGraphClone(&clone, graph));
  cudaGraphNode_t same = nullptr;
  CHECK(cudaGraphNodeFindInClone(&same, add, clone));
  EXPECT(same != nullptr && same != add, "the clone shares nodes");

  // A child graph, twice.
  cudaGraph_t outer = nullptr;
  CHECK(cudaGraphCreate(&outer, 0));
  cudaGraphNode_t inner[2];
  CHECK(cudaGraphAddChildGraphNode(&inner[0], outer, nullptr, 0, clone));
  const cudaGraphNode_t between = AddKernel(outer, {inner[0]}, copy, 1000);
  int* copied = Zeros();
  cudaGraphNode_t last = nullptr;
  CHECK(cudaGraphAddMemcpyNode1D(&last, outer, &between, 1, copied, copy, kBytes,
                                 cudaMemcpyDeviceToDevice));
  CHECK(cudaGraphAddChildGraphNode(&inner[1], outer, &last, 1, clone));
  cudaGraphExec_t both = nullptr;
  CHECK(Instantiate(&both, outer));
  CHECK(cudaGraphDestroy(clone));
  CHECK(cudaGraphLaunch(both, stream));
  CHECK(cudaStreamSynchronize(stream));
  ExpectAll(copied, 1016, "a graph inside, and a kernel");
  ExpectAll(copy, 16, "the graph inside again");

  // Nodes can be removed.
  cudaGraph_t small = nullptr;
  CHECK(cudaGraphCreate(&small, 0));
  cudaGraphNode_t one = nullptr, two = nullptr;
  CHECK(cudaGraphAddEmptyNode(&one, small, nullptr, 0));
  CHECK(cudaGraphAddEmptyNode(&two, small, &one, 1));
  CHECK(cudaGraphDestroyNode(two));
  CHECK(cudaGraphGetNodes(small, nullptr, &count));
  EXPECT(count == 1, "%zu nodes after one was destroyed", count);
  CHECK(cudaGraphDestroy(small));
  CHECK(cudaGraphExecDestroy(both));
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(outer));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaStreamDestroy(stream));
  for (int* memory : {data, copy, copied}) CHECK(cudaFree(memory));
}

// Memory existing only in the graph.
void OwnMemory() {
  int* result = Zeros();
  cudaStream_t stream = nullptr;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  int* scratch = nullptr;
  CHECK(cudaMallocAsync(&scratch, kBytes, stream));
  CHECK(cudaMemsetAsync(scratch, 0, kBytes, stream));
  Add<<<kBlocks, 256, 0, stream>>>(scratch, kCount, 3);
  Sum<<<kBlocks, 256, 0, stream>>>(result, result, scratch, kCount);
  CHECK_LAUNCH();
  CHECK(cudaFreeAsync(scratch, stream));
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t exec = nullptr;
  CHECK(Instantiate(&exec, graph));
  for (int i = 0; i < 4; ++i) CHECK(cudaGraphLaunch(exec, stream));
  CHECK(cudaStreamSynchronize(stream));
  ExpectAll(result, 12, "memory of a graph");
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaFree(result));
}

// Calls invalidating a capture, and their errors.
void Refused() {
  cudaStream_t stream = nullptr, other = nullptr;
  cudaEvent_t event = nullptr;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaStreamCreate(&other));
  CHECK(cudaEventCreate(&event));
  int* data = Zeros();
  CHECK(cudaDeviceSynchronize());
  cudaGraph_t graph = nullptr;
  EXPECT(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeRelaxed) ==
             cudaErrorStreamCaptureUnsupported,
         "the default stream captures");
  EXPECT(cudaStreamEndCapture(stream, &graph) == cudaErrorIllegalState,
         "an end without a beginning");
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  EXPECT(cudaStreamSynchronize(stream) == cudaErrorStreamCaptureUnsupported,
         "a capturing stream is waited for");
  EXPECT(
      cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureInvalidated && graph == nullptr,
      "a capture outlives what it can not hold");
  // A failed launch invalidates it too.
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  Add<<<kBlocks, 4096, 0, stream>>>(data, kCount, 1);
  EXPECT(cudaGetLastError() != cudaSuccess, "a launch of 4,096 threads a block");
  EXPECT(
      cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureInvalidated && graph == nullptr,
      "a capture outlives a launch that failed");
  // A call with invalid arguments leaves it valid.
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  int host = 0;
  EXPECT(cudaMemcpyAsync(data, &host, 4, static_cast<cudaMemcpyKind>(77), stream) ==
             cudaErrorInvalidMemcpyDirection,
         "a copy of no kind");
  EXPECT(
      cudaMemcpyAsync(nullptr, &host, 4, cudaMemcpyHostToDevice, stream) == cudaErrorInvalidValue,
      "a copy to nowhere");
  EXPECT(cudaFreeAsync(data, stream) == cudaErrorInvalidValue, "memory of no graph is freed");
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphDestroy(graph));
  // The graph need not be requested.
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  Add<<<kBlocks, 256, 0, stream>>>(data, kCount, 1);
  CHECK(cudaStreamEndCapture(stream, nullptr));
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  Add<<<kBlocks, 256, 0, stream>>>(data, kCount, 1);
  CHECK(cudaEventRecord(event, stream));
  CHECK(cudaStreamWaitEvent(other, event, 0));
  Add<<<kBlocks, 256, 0, other>>>(data, kCount, 1);
  EXPECT(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureUnjoined,
         "a stream that does not come back");
  static_cast<void>(cudaGetLastError());
  CHECK(cudaStreamSynchronize(other));
  ExpectAll(data, 0, "captures that failed");
  CHECK(cudaFree(data));
  CHECK(cudaEventDestroy(event));
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaStreamDestroy(other));
}

}  // namespace

int main(int argc, char** argv) {
  const int launches = static_cast<int>(NumberArgument(argc, argv, 1, 10, 1, 100000));
  DeviceCount();
  Capture(launches);
  ByHand();
  OwnMemory();
  Refused();
  std::printf("graphs: %d launches: %s\n", launches, Verdict(failures));
  return ExitStatus(failures);
}

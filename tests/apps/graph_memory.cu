// Memory allocated by graphs: repeatedly in one graph, in concurrent branches, beyond the launch
// and beyond the graph. Also memory impossible to free.
//
//   graph_memory [TURNS]
#include <vector>

#include "check.h"
#include "releases.h"

namespace {

int failures = 0;
constexpr size_t kLarge = size_t{48} << 20;  // Bytes; several exceed a small device.
constexpr unsigned kBlocks = 64;
constexpr unsigned kThreads = 256;

__global__ void Fill(unsigned* values, size_t count, unsigned value) {
  const size_t step = size_t{gridDim.x} * blockDim.x;
  for (size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step)
    values[i] = value;
}
// Adds to *wrong the number of values different from `value`.
__global__ void CountOthers(const unsigned* values, size_t count, unsigned value, unsigned* wrong) {
  const size_t step = size_t{gridDim.x} * blockDim.x;
  for (size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step)
    if (values[i] != value) atomicAdd(wrong, 1U);
}

struct Counter {
  unsigned* wrong = nullptr;
  Counter() {
    CHECK(cudaMalloc(&wrong, sizeof *wrong));
    CHECK(cudaMemset(wrong, 0, sizeof *wrong));
    CHECK(cudaDeviceSynchronize());
  }
  void ExpectNone(const char* what) const {
    unsigned count = 0;
    CHECK(cudaMemcpy(&count, wrong, sizeof count, cudaMemcpyDeviceToHost));
    EXPECT(count == 0, "%s: %u wrong values", what, count);
    CHECK(cudaFree(wrong));
  }
};

cudaStream_t NewStream() {
  cudaStream_t stream = nullptr;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

void LaunchTwice(cudaGraph_t graph, cudaStream_t stream) {
  cudaGraphExec_t exec = nullptr;
  CHECK(Instantiate(&exec, graph));
  for (int i = 0; i < 2; ++i) CHECK(cudaGraphLaunch(exec, stream));
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaGraphExecDestroy(exec));
}

// Together possibly more than the device's memory, but never more than one piece at a time.
void Turns(int turns) {
  const Counter counter;
  cudaStream_t stream = NewStream();
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  for (int i = 0; i < turns; ++i) {
    const size_t count = (kLarge - size_t(i) * 4096) / sizeof(unsigned);
    unsigned* memory = nullptr;
    CHECK(cudaMallocAsync(&memory, count * sizeof *memory, stream));
    Fill<<<kBlocks, kThreads, 0, stream>>>(memory, count, i + 1);
    CountOthers<<<kBlocks, kThreads, 0, stream>>>(memory, count, i + 1, counter.wrong);
    CHECK_LAUNCH();
    CHECK(cudaFreeAsync(memory, stream));
  }
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(stream, &graph));
  LaunchTwice(graph, stream);
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaStreamDestroy(stream));
  counter.ExpectNone("memory by turns");
}

// Memory freed in one branch may still be in use when the other branch allocates.
void Branches() {
  const Counter counter;
  cudaStream_t left = NewStream(), right = NewStream();
  cudaEvent_t event = nullptr;
  CHECK(cudaEventCreate(&event));
  constexpr size_t kCount = size_t{1} << 20;
  CHECK(cudaStreamBeginCapture(left, cudaStreamCaptureModeRelaxed));
  CHECK(cudaEventRecord(event, left));
  CHECK(cudaStreamWaitEvent(right, event, 0));
  unsigned value = 0;
  for (cudaStream_t stream : {left, right, left, right}) {
    unsigned* memory = nullptr;
    CHECK(cudaMallocAsync(&memory, kCount * sizeof *memory, stream));
    ++value;
    for (int i = 0; i < 8; ++i) {
      Fill<<<1, kThreads, 0, stream>>>(memory, kCount, value);
      CountOthers<<<1, kThreads, 0, stream>>>(memory, kCount, value, counter.wrong);
      CHECK_LAUNCH();
    }
    CHECK(cudaFreeAsync(memory, stream));
  }
  CHECK(cudaEventRecord(event, right));
  CHECK(cudaStreamWaitEvent(left, event, 0));
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(left, &graph));
  LaunchTwice(graph, left);
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaEventDestroy(event));
  CHECK(cudaStreamDestroy(left));
  CHECK(cudaStreamDestroy(right));
  counter.ExpectNone("memory of branches");
}

cudaMemAllocNodeParams ParametersOf(size_t bytes) {
  cudaMemAllocNodeParams parameters{};
  parameters.poolProps.allocType = cudaMemAllocationTypePinned;
  parameters.poolProps.location = {cudaMemLocationTypeDevice, 0};
  parameters.bytesize = bytes;
  return parameters;
}

// Memory without a free node belongs to the program. After the program frees it, the graph can be
// launched again.
void BeyondTheLaunch() {
  const Counter counter;
  constexpr size_t kCount = 4096;
  cudaStream_t stream = NewStream();
  cudaGraph_t graph = nullptr;
  CHECK(cudaGraphCreate(&graph, 0));
  cudaMemAllocNodeParams parameters = ParametersOf(kCount * sizeof(unsigned));
  cudaGraphNode_t allocated = nullptr, filled = nullptr;
  CHECK(cudaGraphAddMemAllocNode(&allocated, graph, nullptr, 0, &parameters));
  cudaMemsetParams set{};
  set.dst = parameters.dptr;
  set.value = 0x07070707;
  set.elementSize = 4;
  set.width = kCount;
  set.height = 1;
  CHECK(cudaGraphAddMemsetNode(&filled, graph, &allocated, 1, &set));
  cudaGraphExec_t exec = nullptr;
  CHECK(Instantiate(&exec, graph));
  EXPECT(cudaFreeAsync(parameters.dptr, stream) == cudaErrorInvalidValue,
         "memory is freed before a launch allocates it");
  cudaGraphExec_t second = nullptr;
  EXPECT(Instantiate(&second, graph) == cudaErrorNotSupported,
         "a graph with memory is instantiated twice");
  const auto count_others = [&] {
    static_cast<void>(cudaGetLastError());  // Clears the error of the refusal.
    CountOthers<<<kBlocks, kThreads, 0, stream>>>(static_cast<unsigned*>(parameters.dptr), kCount,
                                                  0x07070707, counter.wrong);
    CHECK_LAUNCH();
  };
  for (int i = 0; i < 3; ++i) {
    CHECK(cudaGraphLaunch(exec, stream));
    EXPECT(cudaGraphLaunch(exec, stream) == cudaErrorInvalidValue, "memory is allocated twice");
    count_others();
    CHECK(cudaFreeAsync(parameters.dptr, stream));
  }
  // The last launch's memory outlives the graph.
  CHECK(cudaGraphLaunch(exec, stream));
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
  count_others();
  CHECK(cudaFreeAsync(parameters.dptr, stream));
  EXPECT(cudaFreeAsync(parameters.dptr, stream) == cudaErrorInvalidValue, "memory is freed twice");
  static_cast<void>(cudaGetLastError());
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaStreamDestroy(stream));
  counter.ExpectNone("memory beyond the launch");
}

void Refused() {
  cudaGraph_t graph = nullptr;
  CHECK(cudaGraphCreate(&graph, 0));
  cudaMemAllocNodeParams parameters = ParametersOf(1024);
  cudaGraphNode_t allocated = nullptr, freed = nullptr, again = nullptr;
  CHECK(cudaGraphAddMemAllocNode(&allocated, graph, nullptr, 0, &parameters));
  CHECK(cudaGraphAddMemFreeNode(&freed, graph, &allocated, 1, parameters.dptr));
  EXPECT(
      cudaGraphAddMemFreeNode(&again, graph, &freed, 1, parameters.dptr) == cudaErrorInvalidValue,
      "memory is freed twice in a graph");
  // Nodes and edges needed by others cannot be removed.
  EXPECT(cudaGraphDestroyNode(freed) != cudaSuccess, "a node that frees memory is destroyed");
  EXPECT(RemoveEdge(graph, allocated, freed) != cudaSuccess, "the order of memory is changed");
  void* other = nullptr;
  CHECK(cudaMalloc(&other, 1024));
  EXPECT(cudaGraphAddMemFreeNode(&again, graph, &freed, 1, other) == cudaErrorInvalidValue,
         "a graph frees what is no graph's");
  CHECK(cudaFree(other));
  parameters = ParametersOf(0);
  EXPECT(cudaGraphAddMemAllocNode(&again, graph, nullptr, 0, &parameters) == cudaErrorInvalidValue,
         "memory of no bytes");
  CHECK(cudaGraphDestroy(graph));
  static_cast<void>(cudaGetLastError());
}

}  // namespace

int main(int argc, char** argv) {
  const int turns = static_cast<int>(NumberArgument(argc, argv, 1, 12, 1, 1000));
  DeviceCount();
  Turns(turns);
  Branches();
  BeyondTheLaunch();
  Refused();
  std::printf("graph_memory: %d turns: %s\n", turns, Verdict(failures));
  return ExitStatus(failures);
}

// Changes to graphs, and objects attached to them: copies of variables, events, attributes of
// kernels and their arguments in one buffer, child graphs, user objects, and a drawing.
//
//   graph_changes
#include <atomic>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include <cuda.h>
#include <unistd.h>

#include "check.h"

namespace {

int failures = 0;
constexpr int kCount = 8;
constexpr std::size_t kBytes = kCount * sizeof(int);

__device__ int numbers[kCount];
__constant__ int factors[kCount];

__global__ void Multiply() { numbers[threadIdx.x] *= factors[threadIdx.x]; }
__global__ void AddTo(int* to, int what) { *to += what; }
// Waits until another stream has set the flag.
__global__ void Wait(const volatile int* go) {
  while (*go == 0) {
  }
}

cudaGraph_t NewGraph() {
  cudaGraph_t graph = nullptr;
  CHECK(cudaGraphCreate(&graph, 0));
  return graph;
}

cudaGraphExec_t NewExec(cudaGraph_t graph) {
  cudaGraphExec_t exec = nullptr;
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  return exec;
}

template <typename... Arguments>
cudaGraphNode_t AddKernel(cudaGraph_t graph, const cudaGraphNode_t* after, unsigned threads,
                          void (*kernel)(Arguments...), Arguments... arguments) {
  void* pointers[] = {&arguments..., nullptr};
  cudaKernelNodeParams parameters{};
  parameters.func = reinterpret_cast<void*>(kernel);
  parameters.gridDim = 1;
  parameters.blockDim = threads;
  parameters.kernelParams = pointers;
  cudaGraphNode_t node = nullptr;
  CHECK(cudaGraphAddKernelNode(&node, graph, after, after == nullptr ? 0 : 1, &parameters));
  return node;
}

void Run(cudaGraphExec_t exec) {
  CHECK(cudaGraphLaunch(exec, nullptr));
  CHECK(cudaDeviceSynchronize());
}

void ExpectNumbers(const int (&got)[kCount], int base, int factor, const char* what) {
  for (int i = 0; i < kCount; ++i)
    EXPECT(got[i] == (base + i) * factor, "%s: number %d is %d", what, i, got[i]);
}

void Variables() {
  static int in[kCount], other_in[kCount], twos[kCount], threes[kCount];
  static int out[kCount], other_out[kCount];
  for (int i = 0; i < kCount; ++i) {
    in[i] = 10 + i;
    other_in[i] = 100 + i;
    twos[i] = 2;
    threes[i] = 3;
  }
  const cudaGraph_t graph = NewGraph();
  cudaGraphNode_t fill = nullptr, factor = nullptr, read = nullptr;
  CHECK(cudaGraphAddMemcpyNodeToSymbol(&fill, graph, nullptr, 0, numbers, in, kBytes, 0,
                                       cudaMemcpyHostToDevice));
  CHECK(cudaGraphAddMemcpyNodeToSymbol(&factor, graph, &fill, 1, factors, twos, kBytes, 0,
                                       cudaMemcpyHostToDevice));
  const cudaGraphNode_t multiply = AddKernel(graph, &factor, kCount, Multiply);
  CHECK(cudaGraphAddMemcpyNodeFromSymbol(&read, graph, &multiply, 1, out, numbers, kBytes, 0,
                                         cudaMemcpyDeviceToHost));
  const cudaGraphExec_t exec = NewExec(graph);
  Run(exec);
  ExpectNumbers(out, 10, 2, "as it was made");
  // First the executable graph, then the graph itself.
  CHECK(cudaGraphExecMemcpyNodeSetParamsToSymbol(exec, fill, numbers, other_in, kBytes, 0,
                                                 cudaMemcpyHostToDevice));
  CHECK(cudaGraphExecMemcpyNodeSetParamsFromSymbol(exec, read, other_out, numbers, kBytes, 0,
                                                   cudaMemcpyDeviceToHost));
  Run(exec);
  ExpectNumbers(other_out, 100, 2, "the executable graph changed");
  ExpectNumbers(out, 10, 2, "what it wrote before");
  CHECK(cudaGraphMemcpyNodeSetParamsToSymbol(factor, factors, threes, kBytes, 0,
                                             cudaMemcpyHostToDevice));
  CHECK(cudaGraphMemcpyNodeSetParamsFromSymbol(read, out, numbers, kBytes, 0,
                                               cudaMemcpyDeviceToHost));
  Run(exec);
  ExpectNumbers(other_out, 100, 2, "an executable graph does not follow its graph");
  const cudaGraphExec_t changed = NewExec(graph);
  Run(changed);
  ExpectNumbers(out, 10, 3, "the graph changed");
  EXPECT(cudaGraphMemcpyNodeSetParamsToSymbol(factor, factors, threes, kBytes, 1,
                                              cudaMemcpyHostToDevice) == cudaErrorInvalidValue,
         "more than the variable has");
  static_cast<void>(cudaGetLastError());
  CHECK(cudaGraphExecDestroy(changed));
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
}

void Events() {
  cudaEvent_t first = nullptr, second = nullptr, found = nullptr;
  CHECK(cudaEventCreate(&first));
  CHECK(cudaEventCreate(&second));
  const cudaGraph_t graph = NewGraph();
  cudaGraphNode_t record = nullptr, wait = nullptr;
  CHECK(cudaGraphAddEventRecordNode(&record, graph, nullptr, 0, first));
  CHECK(cudaGraphAddEventWaitNode(&wait, graph, &record, 1, first));
  CHECK(cudaGraphEventRecordNodeSetEvent(record, second));
  CHECK(cudaGraphEventWaitNodeSetEvent(wait, second));
  CHECK(cudaGraphEventRecordNodeGetEvent(record, &found));
  EXPECT(found == second, "the record's event");
  CHECK(cudaGraphEventWaitNodeGetEvent(wait, &found));
  EXPECT(found == second, "the wait's event");
  EXPECT(cudaGraphEventRecordNodeSetEvent(wait, first) == cudaErrorInvalidValue,
         "a node of another kind");
  static_cast<void>(cudaGetLastError());
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaEventDestroy(first));
  CHECK(cudaEventDestroy(second));
}

// Attributes stay when the kernel's parameters are set, and can be copied to another node.
void Attributes() {
  int* sum = nullptr;
  CHECK(cudaMalloc(&sum, sizeof *sum));
  CHECK(cudaMemset(sum, 0, sizeof *sum));
  const cudaGraph_t graph = NewGraph();
  const cudaGraphNode_t first = AddKernel(graph, nullptr, 1, AddTo, sum, 1);
  const cudaGraphNode_t second = AddKernel(graph, &first, 1, AddTo, sum, 10);
  cudaLaunchAttributeValue value{};
  CHECK(cudaGraphKernelNodeGetAttribute(first, cudaLaunchAttributeCooperative, &value));
  EXPECT(value.cooperative == 0, "cooperative at the start: %d", value.cooperative);
  value.cooperative = 1;
  CHECK(cudaGraphKernelNodeSetAttribute(first, cudaLaunchAttributeCooperative, &value));
  cudaKernelNodeParams parameters{};
  CHECK(cudaGraphKernelNodeGetParams(first, &parameters));
  CHECK(cudaGraphKernelNodeSetParams(first, &parameters));
  value = {};
  CHECK(cudaGraphKernelNodeGetAttribute(first, cudaLaunchAttributeCooperative, &value));
  EXPECT(value.cooperative == 1, "cooperative afterwards: %d", value.cooperative);
  int least = 0, greatest = 0;
  CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  value = {};
  value.priority = greatest;
  CHECK(cudaGraphKernelNodeSetAttribute(first, cudaLaunchAttributePriority, &value));
  CHECK(cudaGraphKernelNodeCopyAttributes(second, first));
  value = {};
  CHECK(cudaGraphKernelNodeGetAttribute(second, cudaLaunchAttributePriority, &value));
  EXPECT(value.priority == greatest, "priority %d", value.priority);
  value = {};
  CHECK(cudaGraphKernelNodeGetAttribute(second, cudaLaunchAttributeCooperative, &value));
  EXPECT(value.cooperative == 1, "cooperative %d", value.cooperative);
  const cudaGraphExec_t exec = NewExec(graph);
  Run(exec);
  int got = 0;
  CHECK(cudaMemcpy(&got, sum, sizeof got, cudaMemcpyDeviceToHost));
  EXPECT(got == 11, "%d", got);
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
}

// Parameters returned for a node stay valid until its destruction, even if others are set
// meanwhile.
void Taken() {
  int* sum = nullptr;
  CHECK(cudaMalloc(&sum, sizeof *sum));
  CHECK(cudaMemset(sum, 0, sizeof *sum));
  const cudaGraph_t graph = NewGraph();
  const cudaGraphNode_t first = AddKernel(graph, nullptr, 1, AddTo, sum, 1);
  const cudaGraphNode_t second = AddKernel(graph, &first, 1, AddTo, sum, 10);
  const cudaGraphExec_t exec = NewExec(graph);
  cudaKernelNodeParams taken{}, of_second{};
  CHECK(cudaGraphKernelNodeGetParams(first, &taken));
  CHECK(cudaGraphKernelNodeGetParams(second, &of_second));
  const auto what = [](const cudaKernelNodeParams& parameters) {
    return static_cast<int*>(parameters.kernelParams[1]);
  };
  EXPECT(*what(taken) == 1 && *what(of_second) == 10, "%d and %d", *what(taken), *what(of_second));
  *what(taken) = 2;
  CHECK(cudaGraphKernelNodeSetParams(first, &taken));
  *what(taken) = 3;
  CHECK(cudaGraphExecKernelNodeSetParams(exec, first, &taken));
  // A replaced argument keeps its address: no freed memory is used.
  std::vector<std::vector<char>> others(100, std::vector<char>(4, 'x'));
  CHECK(cudaGraphKernelNodeSetParams(first, &taken));
  CHECK(cudaGraphExecKernelNodeSetParams(exec, second, &of_second));
  EXPECT(*what(taken) == 3 && *what(of_second) == 10, "%d and %d", *what(taken), *what(of_second));
  Run(exec);
  int got = 0;
  CHECK(cudaMemcpy(&got, sum, sizeof got, cudaMemcpyDeviceToHost));
  EXPECT(got == 13, "%d", got);
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaFree(sum));
}

void Inside() {
  int* sum = nullptr;
  CHECK(cudaMalloc(&sum, sizeof *sum));
  CHECK(cudaMemset(sum, 0, sizeof *sum));
  const cudaGraph_t ones = NewGraph(), tens = NewGraph(), others = NewGraph(), graph = NewGraph();
  AddKernel(ones, nullptr, 1, AddTo, sum, 1);
  AddKernel(tens, nullptr, 1, AddTo, sum, 10);
  const cudaGraphNode_t two = AddKernel(others, nullptr, 1, AddTo, sum, 100);
  AddKernel(others, &two, 1, AddTo, sum, 100);
  cudaGraphNode_t node = nullptr;
  CHECK(cudaGraphAddChildGraphNode(&node, graph, nullptr, 0, ones));
  const cudaGraphExec_t exec = NewExec(graph);
  Run(exec);
  CHECK(cudaGraphExecChildGraphNodeSetParams(exec, node, tens));
  Run(exec);
  EXPECT(cudaGraphExecChildGraphNodeSetParams(exec, node, others) != cudaSuccess,
         "a graph of other nodes");
  static_cast<void>(cudaGetLastError());
  int got = 0;
  CHECK(cudaMemcpy(&got, sum, sizeof got, cudaMemcpyDeviceToHost));
  EXPECT(got == 11, "%d", got);
  CHECK(cudaGraphExecDestroy(exec));
  for (const cudaGraph_t one : {ones, tens, others, graph}) CHECK(cudaGraphDestroy(one));
}

// An object is destroyed after its last reference: of the program, of a graph, or of a running
// launch.
void Objects() {
  static std::atomic<int> gone{0};
  const auto destroy = [](void* counter) { ++*static_cast<std::atomic<int>*>(counter); };
  const auto expect_gone = [](int count) {
    // Destroyed by a thread of CUDA, with a delay.
    while (gone.load() < count) std::this_thread::yield();
    EXPECT(gone.load() == count, "%d objects are gone", gone.load());
  };
  cudaUserObject_t object = nullptr;
  EXPECT(cudaUserObjectCreate(&object, &gone, destroy, 0, cudaUserObjectNoDestructorSync) ==
             cudaErrorInvalidValue,
         "no reference");
  EXPECT(cudaUserObjectCreate(&object, &gone, destroy, 1, 0) == cudaErrorInvalidValue, "no flag");
  static_cast<void>(cudaGetLastError());
  // Referenced by the program alone.
  CHECK(cudaUserObjectCreate(&object, &gone, destroy, 1, cudaUserObjectNoDestructorSync));
  CHECK(cudaUserObjectRetain(object, 2));
  CHECK(cudaUserObjectRelease(object, 2));
  EXPECT(gone.load() == 0, "it is still the program's");
  CHECK(cudaUserObjectRelease(object, 1));
  expect_gone(1);
  // Referenced by a graph too.
  CHECK(cudaUserObjectCreate(&object, &gone, destroy, 1, cudaUserObjectNoDestructorSync));
  cudaGraph_t graph = NewGraph();
  CHECK(cudaGraphRetainUserObject(graph, object, 1, 0));
  CHECK(cudaUserObjectRelease(object, 1));
  EXPECT(gone.load() == 1, "the graph has it");
  CHECK(cudaGraphReleaseUserObject(graph, object, 1));
  expect_gone(2);
  CHECK(cudaGraphDestroy(graph));
  // Referenced by a running launch: the graph and its executable graph are destroyed before its
  // end.
  int *go = nullptr, *one = nullptr;
  CHECK(cudaMalloc(&go, sizeof *go));
  CHECK(cudaMemset(go, 0, sizeof *go));
  CHECK(cudaMallocHost(&one, sizeof *one));
  *one = 1;
  cudaStream_t first = nullptr, second = nullptr;
  CHECK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaUserObjectCreate(&object, &gone, destroy, 1, cudaUserObjectNoDestructorSync));
  graph = NewGraph();
  AddKernel(graph, nullptr, 1, Wait, (const volatile int*)go);
  CHECK(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove));
  const cudaGraphExec_t exec = NewExec(graph);
  CHECK(cudaGraphLaunch(exec, first));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaGraphExecDestroy(exec));
  EXPECT(gone.load() == 2, "the launch has it");
  CHECK(cudaMemcpyAsync(go, one, sizeof *go, cudaMemcpyHostToDevice, second));
  CHECK(cudaDeviceSynchronize());
  expect_gone(3);
  // An update takes over the objects of the new graph.
  cudaUserObject_t old_one = nullptr, new_one = nullptr;
  CHECK(cudaUserObjectCreate(&old_one, &gone, destroy, 1, cudaUserObjectNoDestructorSync));
  CHECK(cudaUserObjectCreate(&new_one, &gone, destroy, 1, cudaUserObjectNoDestructorSync));
  const cudaGraph_t before = NewGraph(), after = NewGraph();
  for (const cudaGraph_t one_graph : {before, after})
    AddKernel(one_graph, nullptr, 1, Wait, (const volatile int*)go);
  CHECK(cudaGraphRetainUserObject(before, old_one, 1, cudaGraphUserObjectMove));
  CHECK(cudaGraphRetainUserObject(after, new_one, 1, cudaGraphUserObjectMove));
  const cudaGraphExec_t updated = NewExec(before);
  CHECK(cudaGraphDestroy(before));
  cudaGraphExecUpdateResultInfo result{};
  CHECK(cudaGraphExecUpdate(updated, after, &result));
  CHECK(cudaGraphDestroy(after));
  expect_gone(4);
  CHECK(cudaGraphLaunch(updated, first));
  CHECK(cudaDeviceSynchronize());
  EXPECT(gone.load() == 4, "what was instantiated has the new one");
  CHECK(cudaGraphExecDestroy(updated));
  expect_gone(5);
  CHECK(cudaStreamDestroy(first));
  CHECK(cudaStreamDestroy(second));
}

void Drawing() {
  const cudaGraph_t graph = NewGraph();
  cudaGraphNode_t first = nullptr, second = nullptr;
  CHECK(cudaGraphAddEmptyNode(&first, graph, nullptr, 0));
  CHECK(cudaGraphAddEmptyNode(&second, graph, &first, 1));
  const std::string path = "graph_" + std::to_string(getpid()) + ".dot";
  CHECK(cudaGraphDebugDotPrint(graph, path.c_str(), cudaGraphDebugDotFlagsVerbose));
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT(text.find("digraph") == 0, "it begins with '%.20s'", text.c_str());
  EXPECT(text.find("->") != std::string::npos, "no edge");
  std::remove(path.c_str());
  EXPECT(cudaGraphDebugDotPrint(graph, "/no/such/folder/graph.dot", 0) != cudaSuccess,
         "a folder that there is not");
  static_cast<void>(cudaGetLastError());
  CHECK(cudaGraphDestroy(graph));
}

// A kernel's arguments in one buffer, copied by the node.
void Buffers() {
  int* word = nullptr;
  CHECK(cudaMalloc(&word, sizeof *word));
  CHECK(cudaMemset(word, 0, sizeof *word));
  struct {
    int* word;
    int value;
  } arguments{word, 17};
  std::size_t bytes = offsetof(decltype(arguments), value) + sizeof arguments.value;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &arguments, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                   CU_LAUNCH_PARAM_END};
  cudaKernelNodeParams parameters{};
  parameters.func = reinterpret_cast<void*>(AddTo);
  parameters.gridDim = parameters.blockDim = 1;
  parameters.extra = extra;
  const cudaGraph_t graph = NewGraph();
  cudaGraphNode_t node = nullptr;
  CHECK(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &parameters));
  arguments.value = 18;
  const cudaGraphExec_t exec = NewExec(graph);
  Run(exec);
  int found = 0;
  CHECK(cudaMemcpy(&found, word, sizeof found, cudaMemcpyDeviceToHost));
  EXPECT(found == 17, "%d", found);
  CHECK(cudaGraphExecKernelNodeSetParams(exec, node, &parameters));
  Run(exec);
  CHECK(cudaMemcpy(&found, word, sizeof found, cudaMemcpyDeviceToHost));
  EXPECT(found == 17 + 18, "%d", found);
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaFree(word));
}

// Launched repeatedly with different work, without waits in between. Each launch uses the
// parameters at its time.
void Again() {
  constexpr int kRounds = 20;
  int* words = nullptr;  // The sum, and its value in each round.
  CHECK(cudaMalloc(&words, (1 + kRounds) * sizeof *words));
  cudaStream_t stream = nullptr;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const cudaGraph_t inner = NewGraph();
  const cudaGraph_t graph = NewGraph();
  const auto kernel = [](void** arguments) {
    cudaKernelNodeParams parameters{};
    parameters.func = reinterpret_cast<void*>(AddTo);
    parameters.gridDim = parameters.blockDim = 1;
    parameters.kernelParams = arguments;
    return parameters;
  };
  int value = 1;
  void* arguments[] = {&words, &value};
  cudaMemsetParams set{words, 0, 0, sizeof(int), 1, 1};
  cudaGraphNode_t start = nullptr, add = nullptr, inside = nullptr, child = nullptr, keep = nullptr;
  CHECK(cudaGraphAddMemsetNode(&start, graph, nullptr, 0, &set));
  cudaKernelNodeParams parameters = kernel(arguments);
  CHECK(cudaGraphAddKernelNode(&add, graph, &start, 1, &parameters));
  CHECK(cudaGraphAddKernelNode(&inside, inner, nullptr, 0, &parameters));
  CHECK(cudaGraphAddChildGraphNode(&child, graph, &add, 1, inner));
  CHECK(cudaGraphAddMemcpyNode1D(&keep, graph, &child, 1, words + 1, words, sizeof *words,
                                 cudaMemcpyDeviceToDevice));
  const cudaGraphExec_t exec = NewExec(graph);
  int expected[kRounds];
  for (int round = 0; round < kRounds; ++round) {
    set.value = static_cast<unsigned>(1000 * round);
    CHECK(cudaGraphExecMemsetNodeSetParams(exec, start, &set));
    value = round + 1;
    parameters = kernel(arguments);
    CHECK(cudaGraphExecKernelNodeSetParams(exec, add, &parameters));
    value = 100 * (round % 3);
    CHECK(cudaGraphKernelNodeSetParams(inside, &parameters));
    CHECK(cudaGraphExecChildGraphNodeSetParams(exec, child, inner));
    CHECK(cudaGraphExecMemcpyNodeSetParams1D(exec, keep, words + 1 + round, words, sizeof *words,
                                             cudaMemcpyDeviceToDevice));
    if (round == kRounds / 2) CHECK(cudaGraphNodeSetEnabled(exec, add, 0));
    CHECK(cudaGraphLaunch(exec, stream));
    expected[round] = 1000 * round + (round < kRounds / 2 ? round + 1 : 0) + 100 * (round % 3);
  }
  int found[kRounds];
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaMemcpy(found, words + 1, sizeof found, cudaMemcpyDeviceToHost));
  for (int round = 0; round < kRounds; ++round)
    EXPECT(found[round] == expected[round], "round %d: %d, not %d", round, found[round],
           expected[round]);
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaGraphDestroy(inner));
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaFree(words));
}

// Submitted launches run unchanged, even if the executable graph is changed or destroyed before
// they run.
void Leave() {
  constexpr int kNodes = 6;
  int* sum = nullptr;
  CHECK(cudaMalloc(&sum, sizeof *sum));
  CHECK(cudaMemset(sum, 0, sizeof *sum));
  CHECK(cudaDeviceSynchronize());  // The stream is non-blocking.
  cudaStream_t stream = nullptr;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const cudaGraph_t graph = NewGraph();
  cudaGraphNode_t nodes[kNodes] = {};
  for (int i = 0; i < kNodes; ++i)
    nodes[i] = AddKernel(graph, i == 0 ? nullptr : &nodes[i - 1], 1, AddTo, sum, 1);
  const cudaGraphExec_t exec = NewExec(graph);
  for (int i = 0; i < 3; ++i) CHECK(cudaGraphLaunch(exec, stream));
  static std::atomic<bool> goes_on{false};
  goes_on = false;
  CHECK(cudaLaunchHostFunc(
      stream,
      [](void*) {
        while (!goes_on) std::this_thread::yield();
      },
      nullptr));
  int what = 100;
  void* arguments[] = {&sum, &what};
  cudaKernelNodeParams parameters{};
  parameters.func = reinterpret_cast<void*>(AddTo);
  parameters.gridDim = 1;
  parameters.blockDim = 1;
  parameters.kernelParams = arguments;
  CHECK(cudaGraphExecKernelNodeSetParams(exec, nodes[2], &parameters));
  CHECK(cudaGraphLaunch(exec, stream));
  // This change instantiates it anew.
  CHECK(cudaGraphNodeSetEnabled(exec, nodes[1], 0));
  CHECK(cudaGraphLaunch(exec, stream));
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
  goes_on = true;
  CHECK(cudaStreamSynchronize(stream));
  int found = 0;
  CHECK(cudaMemcpy(&found, sum, sizeof found, cudaMemcpyDeviceToHost));
  const int expected = 3 * kNodes + (kNodes - 1 + what) + (kNodes - 2 + what);
  EXPECT(found == expected, "%d, not %d", found, expected);
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaFree(sum));
}

// One executable graph in successive streams: the thread's own one, and destroyed ones.
void InSeveralStreams() {
  constexpr int kNodes = 4, kRounds = 6;
  int* words = nullptr;
  CHECK(cudaMalloc(&words, (kRounds + 1) * sizeof *words));
  CHECK(cudaMemset(words, 0, (kRounds + 1) * sizeof *words));
  CHECK(cudaDeviceSynchronize());  // The streams are non-blocking.
  const cudaGraph_t graph = NewGraph();
  cudaGraphNode_t nodes[kNodes] = {};
  for (int i = 0; i < kNodes; ++i)
    nodes[i] = AddKernel(graph, i == 0 ? nullptr : &nodes[i - 1], 1, AddTo, words, 1);
  const cudaGraphExec_t exec = NewExec(graph);
  for (int round = 0; round < kRounds; ++round) {
    int* const word = words + 1 + round;
    int what = 1 + round;
    void* arguments[] = {const_cast<int**>(&word), &what};
    cudaKernelNodeParams parameters{};
    parameters.func = reinterpret_cast<void*>(AddTo);
    parameters.gridDim = 1;
    parameters.blockDim = 1;
    parameters.kernelParams = arguments;
    CHECK(cudaGraphExecKernelNodeSetParams(exec, nodes[0], &parameters));
    if (round % 2 == 0) {
      CHECK(cudaGraphLaunch(exec, cudaStreamPerThread));
      continue;
    }
    cudaStream_t stream = nullptr;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamDestroy(stream));
  }
  CHECK(cudaDeviceSynchronize());
  int found[kRounds + 1];
  CHECK(cudaMemcpy(found, words, sizeof found, cudaMemcpyDeviceToHost));
  EXPECT(found[0] == (kNodes - 1) * kRounds, "%d", found[0]);
  for (int round = 0; round < kRounds; ++round)
    EXPECT(found[1 + round] == 1 + round, "round %d: %d", round, found[1 + round]);
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaFree(words));
}

}  // namespace

int main() {
  DeviceCount();
  Variables();
  Events();
  Attributes();
  Taken();
  Inside();
  Objects();
  Drawing();
  Buffers();
  Again();
  Leave();
  InSeveralStreams();
  std::printf("graph_changes: %s\n", Verdict(failures));
  return ExitStatus(failures);
}

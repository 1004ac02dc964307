// Graphs controlled by kernels: conditional nodes with if, while and switch bodies.
//
//   conditions
#include <vector>

#include "check.h"

namespace {

int failures = 0;

__global__ void SetTo(cudaGraphConditionalHandle condition, const unsigned* value) {
  cudaGraphSetConditional(condition, *value);
}
__global__ void AddTo(int* to, int what) { *to += what; }
// Counts down. The body runs again until the count is 0.
__global__ void CountDown(cudaGraphConditionalHandle condition, int* left, int* runs) {
  ++*runs;
  cudaGraphSetConditional(condition, --*left > 0 ? 1 : 0);
}
// Many threads work, one of them decides. All numbers are halved until the first one is below 10.
__global__ void HalveAll(cudaGraphConditionalHandle condition, int* numbers, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) numbers[i] /= 2;
  if (i == 0) cudaGraphSetConditional(condition, numbers[0] >= 10 ? 1 : 0);
}
__global__ void Refill(cudaGraphConditionalHandle condition, int* left, int count) {
  *left = count;
  cudaGraphSetConditional(condition, 1);
}

__global__ void AddAtomically(int* to, int what) { atomicAdd(to, what); }
__global__ void CopyOne(int* to, const int* from) { *to = *from; }
// Takes some time, to delay later work.
__global__ void AddSlowly(int* to, int what, long long cycles) {
  const long long start = clock64();
  while (clock64() - start < cycles) {
  }
  *to += what;
}

template <typename T>
T* Device(T value) {
  T* memory = nullptr;
  CHECK(cudaMalloc(&memory, sizeof value));
  CHECK(cudaMemcpy(memory, &value, sizeof value, cudaMemcpyHostToDevice));
  return memory;
}
template <typename T>
void Set(T* memory, T value) {
  CHECK(cudaMemcpy(memory, &value, sizeof value, cudaMemcpyHostToDevice));
}
template <typename T>
T Get(const T* memory) {
  T value{};
  CHECK(cudaMemcpy(&value, memory, sizeof value, cudaMemcpyDeviceToHost));
  return value;
}

cudaGraph_t NewGraph() {
  cudaGraph_t graph = nullptr;
  CHECK(cudaGraphCreate(&graph, 0));
  return graph;
}

cudaGraphConditionalHandle NewCondition(cudaGraph_t graph, unsigned value = 1,
                                        unsigned flags = cudaGraphCondAssignDefault) {
  cudaGraphConditionalHandle condition = 0;
  CHECK(cudaGraphConditionalHandleCreate(&condition, graph, value, flags));
  return condition;
}

template <typename... Arguments>
cudaGraphNode_t AddKernel(cudaGraph_t graph, std::vector<cudaGraphNode_t> after, dim3 grid,
                          dim3 block, void (*kernel)(Arguments...), Arguments... arguments) {
  void* pointers[] = {&arguments...};
  cudaGraphNodeParams parameters{};
  parameters.type = cudaGraphNodeTypeKernel;
  parameters.kernel.func = reinterpret_cast<void*>(kernel);
  parameters.kernel.gridDim = grid;
  parameters.kernel.blockDim = block;
  parameters.kernel.kernelParams = pointers;
  cudaGraphNode_t node = nullptr;
  CHECK(cudaGraphAddNode(&node, graph, after.data(), nullptr, after.size(), &parameters));
  return node;
}

cudaError_t TryConditional(cudaGraph_t graph, const std::vector<cudaGraphNode_t>& after,
                           cudaGraphConditionalHandle condition, cudaGraphConditionalNodeType type,
                           unsigned size, cudaGraphNode_t* node,
                           std::vector<cudaGraph_t>* bodies = nullptr) {
  cudaGraphNodeParams parameters{};
  parameters.type = cudaGraphNodeTypeConditional;
  parameters.conditional.handle = condition;
  parameters.conditional.type = type;
  parameters.conditional.size = size;
  const cudaError_t error =
      cudaGraphAddNode(node, graph, after.data(), nullptr, after.size(), &parameters);
  if (error == cudaSuccess && bodies != nullptr) {
    bodies->assign(parameters.conditional.phGraph_out, parameters.conditional.phGraph_out + size);
  }
  return error;
}

struct Conditional {
  cudaGraphNode_t node = nullptr;
  std::vector<cudaGraph_t> bodies;
};
Conditional AddConditional(cudaGraph_t graph, const std::vector<cudaGraphNode_t>& after,
                           cudaGraphConditionalHandle condition, cudaGraphConditionalNodeType type,
                           unsigned size = 1) {
  Conditional made;
  CHECK(TryConditional(graph, after, condition, type, size, &made.node, &made.bodies));
  return made;
}

cudaGraphExec_t NewExec(cudaGraph_t graph) {
  cudaGraphExec_t exec = nullptr;
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  return exec;
}

void Run(cudaGraphExec_t exec, cudaStream_t stream = nullptr) {
  CHECK(cudaGraphLaunch(exec, stream));
  CHECK(cudaStreamSynchronize(stream));
}

void Forget(cudaGraphExec_t exec, cudaGraph_t graph) {
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
}

// A loop. At each launch, the condition is reset to its default. Later, the body's kernel is given
// other memory.
void While() {
  int* const left = Device(10);
  int* const runs = Device(0);
  int* const elsewhere = Device(7);
  const cudaGraph_t graph = NewGraph();
  const auto condition = NewCondition(graph);
  const Conditional loop = AddConditional(graph, {}, condition, cudaGraphCondTypeWhile);
  cudaGraphNodeType type = cudaGraphNodeTypeCount;
  CHECK(cudaGraphNodeGetType(loop.node, &type));
  EXPECT(type == cudaGraphNodeTypeConditional, "type %d", static_cast<int>(type));
  const auto kernel = AddKernel(loop.bodies[0], {}, 1, 1, CountDown, condition, left, runs);
  const cudaGraphExec_t exec = NewExec(graph);
  EXPECT(Get(runs) == 0, "nothing runs before it is launched");
  Run(exec);
  EXPECT(Get(left) == 0 && Get(runs) == 10, "%d left after %d runs", Get(left), Get(runs));
  Set(left, 3);
  Run(exec);
  EXPECT(Get(left) == 0 && Get(runs) == 13, "%d left after %d runs", Get(left), Get(runs));
  // Several launches without waits between them. The body runs once with nothing left.
  for (int i = 0; i < 5; ++i) CHECK(cudaGraphLaunch(exec, nullptr));
  EXPECT(Get(left) == -5 && Get(runs) == 18, "%d left after %d runs", Get(left), Get(runs));

  cudaKernelNodeParams parameters{};
  CHECK(cudaGraphKernelNodeGetParams(kernel, &parameters));
  auto argument = condition;
  auto* other = elsewhere;
  auto* count = runs;
  void* arguments[] = {&argument, &other, &count};
  parameters.kernelParams = arguments;
  CHECK(cudaGraphExecKernelNodeSetParams(exec, kernel, &parameters));
  Run(exec);
  EXPECT(Get(elsewhere) == 0 && Get(left) == -5 && Get(runs) == 25, "%d, %d left after %d runs",
         Get(elsewhere), Get(left), Get(runs));
  // Then the graph's own parameters again.
  Set(left, 2);
  cudaGraphExecUpdateResultInfo info{};
  CHECK(cudaGraphExecUpdate(exec, graph, &info));
  Run(exec);
  EXPECT(Get(left) == 0 && Get(runs) == 27, "%d left after %d runs", Get(left), Get(runs));
  Forget(exec, graph);
}

// If, with and without an else. A kernel before it sets the number in the same launch.
void IfElse() {
  unsigned* const value = Device(0u);
  int* const sum = Device(0);
  const cudaGraph_t graph = NewGraph();
  const auto first = NewCondition(graph), second = NewCondition(graph);
  const auto set_first = AddKernel(graph, {}, 1, 1, SetTo, first, (const unsigned*)value);
  const auto set_second = AddKernel(graph, {}, 1, 1, SetTo, second, (const unsigned*)value);
  const Conditional only = AddConditional(graph, {set_first}, first, cudaGraphCondTypeIf);
  const Conditional both =
      AddConditional(graph, {only.node, set_second}, second, cudaGraphCondTypeIf, 2);
  AddKernel(only.bodies[0], {}, 1, 1, AddTo, sum, 1);
  AddKernel(both.bodies[0], {}, 1, 1, AddTo, sum, 10);
  AddKernel(both.bodies[1], {}, 1, 1, AddTo, sum, 100);
  const cudaGraphExec_t exec = NewExec(graph);
  Run(exec);
  EXPECT(Get(sum) == 100, "%d", Get(sum));
  Set(value, 5u);
  Run(exec);
  EXPECT(Get(sum) == 111, "%d", Get(sum));
  Set(value, 0u);
  Run(exec);
  EXPECT(Get(sum) == 211, "%d", Get(sum));
  Forget(exec, graph);
}

void Switch() {
  unsigned* const value = Device(0u);
  int* const sum = Device(0);
  const cudaGraph_t graph = NewGraph();
  const auto condition = NewCondition(graph, 9);
  const auto set = AddKernel(graph, {}, 1, 1, SetTo, condition, (const unsigned*)value);
  const Conditional choice = AddConditional(graph, {set}, condition, cudaGraphCondTypeSwitch, 4);
  int digit = 1;
  for (const cudaGraph_t body : choice.bodies) {
    AddKernel(body, {}, 1, 1, AddTo, sum, digit);
    digit *= 10;
  }
  const cudaGraphExec_t exec = NewExec(graph);
  int expected = 0;
  digit = 1;
  for (unsigned i = 0; i < 6; ++i, digit *= 10) {
    Set(value, i);
    Run(exec);
    if (i < 4) expected += digit;
    EXPECT(Get(sum) == expected, "%d after %u", Get(sum), i);
  }
  Forget(exec, graph);
}

// A loop in a loop, and a condition inside. One of the conditions belongs to the body. The inner
// loop ends with its condition at 0. Only a launch resets it to the default, so a kernel sets it.
void Nested() {
  int* const outer_left = Device(4);
  int* const inner_left = Device(0);
  int* const outer_runs = Device(0);
  int* const inner_runs = Device(0);
  int* const extra = Device(0);
  const cudaGraph_t graph = NewGraph();
  const auto outer = NewCondition(graph), choice = NewCondition(graph);
  const Conditional loop = AddConditional(graph, {}, outer, cudaGraphCondTypeWhile);
  const cudaGraph_t body = loop.bodies[0];
  const auto inner = NewCondition(body);
  const auto refill = AddKernel(body, {}, 1, 1, Refill, inner, inner_left, 3);
  const Conditional within = AddConditional(body, {refill}, inner, cudaGraphCondTypeWhile);
  const auto count =
      AddKernel(within.bodies[0], {}, 1, 1, CountDown, inner, inner_left, inner_runs);
  const Conditional question =
      AddConditional(within.bodies[0], {count}, choice, cudaGraphCondTypeIf);
  AddKernel(question.bodies[0], {}, 1, 1, AddTo, extra, 1);
  AddKernel(body, {within.node}, 1, 1, CountDown, outer, outer_left, outer_runs);
  const cudaGraphExec_t exec = NewExec(graph);
  Run(exec);
  EXPECT(Get(outer_runs) == 4 && Get(inner_runs) == 12 && Get(extra) == 12, "%d, %d, %d",
         Get(outer_runs), Get(inner_runs), Get(extra));
  Forget(exec, graph);
}

// The default is set at the launch, not at each execution of the node.
void DefaultOnce() {
  int* const outer_left = Device(4);
  int* const outer_runs = Device(0);
  int* const inner_left = Device(3);
  int* const inner_runs = Device(0);
  const cudaGraph_t graph = NewGraph();
  const auto outer = NewCondition(graph), inner = NewCondition(graph);
  const Conditional loop = AddConditional(graph, {}, outer, cudaGraphCondTypeWhile);
  const Conditional within = AddConditional(loop.bodies[0], {}, inner, cudaGraphCondTypeWhile);
  AddKernel(within.bodies[0], {}, 1, 1, CountDown, inner, inner_left, inner_runs);
  AddKernel(loop.bodies[0], {within.node}, 1, 1, CountDown, outer, outer_left, outer_runs);
  const cudaGraphExec_t exec = NewExec(graph);
  Run(exec);
  EXPECT(Get(outer_runs) == 4 && Get(inner_runs) == 3, "%d, %d", Get(outer_runs), Get(inner_runs));
  Forget(exec, graph);
}

// Sets and copies in a body, and several threads.
void Memory() {
  constexpr int kCount = 3000;
  std::vector<int> numbers(kCount);
  for (int i = 0; i < kCount; ++i) numbers[i] = 1000 + i;
  int *data = nullptr, *copy = nullptr;
  CHECK(cudaMalloc(&data, sizeof(int) * kCount));
  CHECK(cudaMalloc(&copy, sizeof(int) * kCount));
  CHECK(cudaMemset(copy, 0, sizeof(int) * kCount));
  CHECK(cudaMemcpy(data, numbers.data(), sizeof(int) * kCount, cudaMemcpyHostToDevice));
  int* const mark = Device(0);
  const cudaGraph_t graph = NewGraph();
  const auto condition = NewCondition(graph);
  const Conditional loop = AddConditional(graph, {}, condition, cudaGraphCondTypeWhile);
  const cudaGraph_t body = loop.bodies[0];
  const auto halve = AddKernel(body, {}, 12, 256, HalveAll, condition, data, (int)kCount);
  cudaGraphNode_t copied = nullptr, set = nullptr, empty = nullptr;
  CHECK(cudaGraphAddMemcpyNode1D(&copied, body, &halve, 1, copy, data, sizeof(int) * kCount,
                                 cudaMemcpyDeviceToDevice));
  const cudaMemsetParams parameters{mark, 0, 0x01020304, 4, 1, 1};
  CHECK(cudaGraphAddMemsetNode(&set, body, nullptr, 0, &parameters));
  const cudaGraphNode_t both[] = {copied, set};
  CHECK(cudaGraphAddEmptyNode(&empty, body, both, 2));
  AddKernel(body, {empty}, 1, 1, AddTo, mark, 1);
  const cudaGraphExec_t exec = NewExec(graph);
  Run(exec);
  std::vector<int> got(kCount);
  CHECK(cudaMemcpy(got.data(), copy, sizeof(int) * kCount, cudaMemcpyDeviceToHost));
  long wrong = 0;
  // 1000, 500, 250, 125, 62, 31, 15, 7: seven times.
  for (int i = 0; i < kCount; ++i) wrong += got[i] != (1000 + i) / 128;
  EXPECT(wrong == 0, "%ld values are wrong; the first is %d", wrong, got[0]);
  EXPECT(Get(mark) == 0x01020305, "%x", Get(mark));
  Forget(exec, graph);
}

// Captured work: copies from and to the host and host functions, around a loop added explicitly.
void Captured() {
  int* const left = Device(0);
  int* const runs = Device(0);
  int *in = nullptr, *out = nullptr;
  CHECK(cudaMallocHost(&in, sizeof *in));
  CHECK(cudaMallocHost(&out, sizeof *out));
  int calls = 0;
  cudaStream_t stream = nullptr;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  CHECK(cudaMemcpyAsync(left, in, sizeof *in, cudaMemcpyHostToDevice, stream));
  AddTo<<<1, 1, 0, stream>>>(left, 1);
  CHECK_LAUNCH();
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaGraph_t graph = nullptr;
  const cudaGraphNode_t* before = nullptr;
  const cudaGraphEdgeData* edges = nullptr;
  std::size_t count = 0;
  CHECK(cudaStreamGetCaptureInfo(stream, &status, nullptr, &graph, &before, &edges, &count));
  const auto condition = NewCondition(graph);
  Conditional loop =
      AddConditional(graph, {before, before + count}, condition, cudaGraphCondTypeWhile);
  CHECK(cudaStreamUpdateCaptureDependencies(stream, &loop.node, nullptr, 1,
                                            cudaStreamSetCaptureDependencies));
  AddTo<<<1, 1, 0, stream>>>(runs, 1000);
  CHECK_LAUNCH();
  CHECK(cudaMemcpyAsync(out, runs, sizeof *out, cudaMemcpyDeviceToHost, stream));
  CHECK(cudaLaunchHostFunc(
      stream, [](void* counter) { ++*static_cast<int*>(counter); }, &calls));
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaStreamBeginCaptureToGraph(stream, loop.bodies[0], nullptr, nullptr, 0,
                                      cudaStreamCaptureModeRelaxed));
  CountDown<<<1, 1, 0, stream>>>(condition, left, runs);
  CHECK_LAUNCH();
  cudaGraph_t body = nullptr;
  CHECK(cudaStreamEndCapture(stream, &body));
  EXPECT(body == loop.bodies[0], "the capture was into another graph");
  // The program already has the graph, so the end of the capture need not return it.
  cudaGraphNode_t last = nullptr;
  count = 1;
  CHECK(cudaGraphGetNodes(body, &last, &count));
  CHECK(
      cudaStreamBeginCaptureToGraph(stream, body, &last, nullptr, 1, cudaStreamCaptureModeRelaxed));
  AddTo<<<1, 1, 0, stream>>>(runs, 0);
  CHECK_LAUNCH();
  CHECK(cudaStreamEndCapture(stream, nullptr));
  CHECK(cudaStreamIsCapturing(stream, &status));
  EXPECT(status == cudaStreamCaptureStatusNone, "the stream still captures: %d", status);
  CHECK(cudaGraphGetNodes(body, nullptr, &count));
  EXPECT(count == 2, "%zu nodes in the body", count);
  const cudaGraphExec_t exec = NewExec(graph);
  *in = 4;
  Run(exec, stream);
  EXPECT(*out == 1005 && calls == 1, "%d after %d calls", *out, calls);
  *in = 9;  // Read at each launch.
  Run(exec, stream);
  EXPECT(*out == 2015 && calls == 2, "%d after %d calls", *out, calls);
  Forget(exec, graph);
  CHECK(cudaStreamDestroy(stream));
}

// Memory shared by host and device, written in a body.
void Managed() {
  int *left = nullptr, *runs = nullptr;
  CHECK(cudaMallocManaged(&left, sizeof *left));
  CHECK(cudaMallocManaged(&runs, sizeof *runs));
  *left = 6;
  *runs = 0;
  const cudaGraph_t graph = NewGraph();
  const auto condition = NewCondition(graph);
  const Conditional loop = AddConditional(graph, {}, condition, cudaGraphCondTypeWhile);
  AddKernel(loop.bodies[0], {}, 1, 1, CountDown, condition, left, runs);
  const cudaGraphExec_t exec = NewExec(graph);
  Run(exec);
  EXPECT(*left == 0 && *runs == 6, "%d left after %d runs", *left, *runs);
  *left = 2;
  Run(exec);
  EXPECT(*left == 0 && *runs == 8, "%d left after %d runs", *left, *runs);
  Forget(exec, graph);
}

// Refusals of CUDA. The numbers are those of driver 580 on an H200.
void Rules() {
  const cudaGraph_t graph = NewGraph();
  cudaGraphConditionalHandle refused = 0;
  EXPECT(cudaGraphConditionalHandleCreate(&refused, nullptr, 1, 0) == cudaErrorInvalidValue,
         "no graph");
  EXPECT(cudaGraphConditionalHandleCreate(&refused, graph, 1, 2) == cudaErrorInvalidValue,
         "unknown flag");
  const auto condition = NewCondition(graph);
  cudaGraphNode_t node = nullptr;
  const auto expect_refused = [&](cudaGraphConditionalHandle handle,
                                  cudaGraphConditionalNodeType type, unsigned size) {
    const cudaError_t error = TryConditional(graph, {}, handle, type, size, &node);
    EXPECT(error == cudaErrorInvalidValue, "condition %llu, type %d, size %u: %d", handle,
           static_cast<int>(type), size, static_cast<int>(error));
  };
  expect_refused(condition, cudaGraphCondTypeWhile, 2);
  expect_refused(condition, cudaGraphCondTypeIf, 0);
  expect_refused(condition, cudaGraphCondTypeIf, 3);
  expect_refused(condition, static_cast<cudaGraphConditionalNodeType>(7), 1);
  expect_refused(12345, cudaGraphCondTypeIf, 1);
  cudaGraphExec_t exec = nullptr;
  EXPECT(cudaGraphInstantiate(&exec, graph, 0) == cudaErrorInvalidValue,
         "a condition that no node follows");
  const Conditional loop = AddConditional(graph, {}, condition, cudaGraphCondTypeWhile);
  expect_refused(condition, cudaGraphCondTypeIf, 1);  // Already has a node.
  EXPECT(cudaGraphDestroy(loop.bodies[0]) == cudaErrorInvalidValue, "a body is the node's");
  int* const left = Device(2);
  int* const runs = Device(0);
  AddKernel(loop.bodies[0], {}, 1, 1, CountDown, condition, left, runs);
  exec = NewExec(graph);
  cudaGraphExec_t second = nullptr;
  EXPECT(cudaGraphInstantiate(&second, graph, 0) == cudaErrorNotSupported, "a second one");
  cudaGraph_t clone = nullptr;
  EXPECT(cudaGraphClone(&clone, graph) == cudaErrorNotSupported, "a clone");
  const cudaGraph_t parent = NewGraph();
  EXPECT(cudaGraphAddChildGraphNode(&node, parent, nullptr, 0, graph) == cudaErrorNotSupported,
         "a child");
  // The node is created again, and the graph instantiated again after the end of the first
  // executable graph.
  Run(exec);
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroyNode(loop.node));
  const Conditional again = AddConditional(graph, {}, condition, cudaGraphCondTypeWhile);
  AddKernel(again.bodies[0], {}, 1, 1, CountDown, condition, left, runs);
  exec = NewExec(graph);
  Set(left, 5);
  Run(exec);
  EXPECT(Get(runs) == 7, "%d", Get(runs));
  CHECK(cudaGraphDestroy(parent));
  Forget(exec, graph);
  // A host function in a body.
  const cudaGraph_t other = NewGraph();
  const Conditional question = AddConditional(other, {}, NewCondition(other), cudaGraphCondTypeIf);
  const cudaHostNodeParams call{[](void*) {}, nullptr};
  CHECK(cudaGraphAddHostNode(&node, question.bodies[0], nullptr, 0, &call));
  EXPECT(cudaGraphInstantiate(&exec, other, 0) == cudaErrorInvalidValue, "a host's function");
  CHECK(cudaGraphDestroy(other));
  static_cast<void>(cudaGetLastError());
}

// A conditional node runs after all its dependencies, even many.
void ManyBefore() {
  constexpr int kMany = 3000;
  int* const sum = Device(0);
  int* const seen = Device(0);
  const cudaGraph_t graph = NewGraph();
  const auto condition = NewCondition(graph);
  std::vector<cudaGraphNode_t> before;
  for (int i = 0; i < kMany; ++i)
    before.push_back(AddKernel(graph, {}, 1, 1, AddAtomically, sum, 1));
  const Conditional question = AddConditional(graph, before, condition, cudaGraphCondTypeIf);
  AddKernel(question.bodies[0], {}, 1, 1, CopyOne, seen, static_cast<const int*>(sum));
  const cudaGraphExec_t exec = NewExec(graph);
  Run(exec);
  EXPECT(Get(seen) == kMany, "%d of %d were done", Get(seen), kMany);
  Forget(exec, graph);
}

// A change applies to later launches, not to a launch in flight.
void Changed() {
  constexpr long long kCycles = 20'000'000;
  int* const sum = Device(0);
  const cudaGraph_t graph = NewGraph();
  const auto condition = NewCondition(graph);
  const cudaGraphNode_t first = AddKernel(graph, {}, 1, 1, AddSlowly, sum, 1, kCycles);
  const Conditional question = AddConditional(graph, {first}, condition, cudaGraphCondTypeIf);
  AddKernel(question.bodies[0], {}, 1, 1, AddTo, sum, 10);
  const cudaGraphExec_t exec = NewExec(graph);
  for (int what : {1, 100, 1000}) {
    int* to = sum;
    long long cycles = kCycles;
    void* arguments[] = {&to, &what, &cycles};
    cudaKernelNodeParams parameters{};
    parameters.func = reinterpret_cast<void*>(AddSlowly);
    parameters.gridDim = parameters.blockDim = dim3(1);
    parameters.kernelParams = arguments;
    CHECK(cudaGraphExecKernelNodeSetParams(exec, first, &parameters));
    CHECK(cudaGraphLaunch(exec, nullptr));
  }
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaGraphExecDestroy(exec));
  const cudaGraphExec_t next = NewExec(graph);
  Run(next);
  EXPECT(Get(sum) == 1101 + 1 + 4 * 10, "%d", Get(sum));
  Forget(next, graph);
}

// The graph runs on the device of its creation, independent of the launch's stream.
void OtherDevice() {
  int* const left = Device(3);
  int* const runs = Device(0);
  const cudaGraph_t graph = NewGraph();
  const auto condition = NewCondition(graph);
  const Conditional loop = AddConditional(graph, {}, condition, cudaGraphCondTypeWhile);
  AddKernel(loop.bodies[0], {}, 1, 1, CountDown, condition, left, runs);
  const cudaGraphExec_t exec = NewExec(graph);
  CHECK(cudaSetDevice(1));
  cudaStream_t stream = nullptr;
  CHECK(cudaStreamCreate(&stream));
  Run(exec, stream);
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaSetDevice(0));
  EXPECT(Get(left) == 0 && Get(runs) == 3, "%d left after %d runs", Get(left), Get(runs));
  Forget(exec, graph);
}

}  // namespace

int main() {
  const int devices = DeviceCount();
  While();
  IfElse();
  Switch();
  Nested();
  DefaultOnce();
  Memory();
  Captured();
  Managed();
  ManyBefore();
  Changed();
  Rules();
  if (devices > 1) OtherDevice();
  std::printf("conditions: %s\n", Verdict(failures));
  return ExitStatus(failures);
}

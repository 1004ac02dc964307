// Graphs, copies of boxes, and arrays in the driver API: nodes of each kind, executable graphs and
// changes to them, child graphs, and rows with a pitch.
//
//   driver_graphs
#include <cuda.h>

#include <cstdio>
#include <cstring>
#include <vector>

#include "driver_check.h"

namespace {

int failures = 0;

constexpr unsigned kCount = 256;

// words[i] += value
constexpr const char* kPtx = R"(
.version 6.0
.target sm_50
.address_size 64
.visible .entry add(.param .u64 words, .param .u32 value)
{
  .reg .b32 %r<5>;
  .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [words];
  ld.param.u32 %r1, [value];
  mov.u32 %r2, %tid.x;
  cvta.to.global.u64 %rd2, %rd1;
  mul.wide.u32 %rd3, %r2, 4;
  add.u64 %rd4, %rd2, %rd3;
  ld.global.u32 %r3, [%rd4];
  add.u32 %r4, %r3, %r1;
  st.global.u32 [%rd4], %r4;
  ret;
}
)";

int host_calls = 0;
void CountCall(void*) { ++host_calls; }

void CheckGraph() {
  CUmodule module = nullptr;
  DRIVER(cuModuleLoadData(&module, kPtx));
  CUfunction add = nullptr;
  DRIVER(cuModuleGetFunction(&add, module, "add"));
  CUcontext context = nullptr;
  DRIVER(cuCtxGetCurrent(&context));
  CUdeviceptr words = 0;
  DRIVER(cuMemAlloc(&words, kCount * sizeof(unsigned)));
  std::vector<unsigned> host(kCount);

  CUgraph graph = nullptr;
  DRIVER(cuGraphCreate(&graph, 0));
  CUDA_MEMSET_NODE_PARAMS set{};
  set.dst = words;
  set.value = 5;
  set.elementSize = 4;
  set.width = kCount;
  set.height = 1;
  CUgraphNode set_node = nullptr;
  DRIVER(cuGraphAddMemsetNode(&set_node, graph, nullptr, 0, &set, context));
  unsigned value = 10;
  void* arguments[] = {&words, &value};
  CUDA_KERNEL_NODE_PARAMS kernel{};
  kernel.func = add;
  kernel.gridDimX = kernel.gridDimY = kernel.gridDimZ = 1;
  kernel.blockDimX = kCount;
  kernel.blockDimY = kernel.blockDimZ = 1;
  kernel.kernelParams = arguments;
  CUgraphNode kernel_node = nullptr;
  DRIVER(cuGraphAddKernelNode(&kernel_node, graph, &set_node, 1, &kernel));
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = words;
  copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy.dstHost = host.data();
  copy.WidthInBytes = kCount * sizeof(unsigned);
  copy.Height = copy.Depth = 1;
  CUgraphNode copy_node = nullptr;
  DRIVER(cuGraphAddMemcpyNode(&copy_node, graph, &kernel_node, 1, &copy, context));
  const CUDA_HOST_NODE_PARAMS call{&CountCall, nullptr};
  CUgraphNode host_node = nullptr;
  DRIVER(cuGraphAddHostNode(&host_node, graph, &copy_node, 1, &call));
  std::size_t count = 0;
  DRIVER(cuGraphGetNodes(graph, nullptr, &count));
  EXPECT(count == 4, "%zu", count);
  DRIVER(cuGraphGetEdges(graph, nullptr, nullptr, nullptr, &count));
  EXPECT(count == 3, "%zu", count);
  CUgraphNodeType type{};
  DRIVER(cuGraphNodeGetType(kernel_node, &type));
  EXPECT(type == CU_GRAPH_NODE_TYPE_KERNEL, "%d", static_cast<int>(type));
  CUDA_KERNEL_NODE_PARAMS told{};
  DRIVER(cuGraphKernelNodeGetParams(kernel_node, &told));
  EXPECT(told.func == add && told.blockDimX == kCount, "%u", told.blockDimX);
  CUDA_MEMCPY3D told_copy{};
  DRIVER(cuGraphMemcpyNodeGetParams(copy_node, &told_copy));
  EXPECT(told_copy.srcDevice == words && told_copy.dstHost == host.data() &&
             told_copy.WidthInBytes == copy.WidthInBytes,
         "another copy");

  CUgraphExec exec = nullptr;
  DRIVER(cuGraphInstantiateWithFlags(&exec, graph, 0));
  CUstream stream = nullptr;
  DRIVER(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  DRIVER(cuGraphLaunch(exec, stream));
  DRIVER(cuStreamSynchronize(stream));
  EXPECT(host.front() == 15 && host.back() == 15, "%u, %u", host.front(), host.back());
  EXPECT(host_calls == 1, "%d", host_calls);
  value = 20;
  DRIVER(cuGraphExecKernelNodeSetParams(exec, kernel_node, &kernel));
  DRIVER(cuGraphLaunch(exec, stream));
  DRIVER(cuStreamSynchronize(stream));
  EXPECT(host.front() == 25, "%u", host.front());
  DRIVER(cuGraphExecDestroy(exec));
  DRIVER(cuGraphDestroy(graph));
  EXPECT_RESULT(cuGraphDestroy(graph), CUDA_ERROR_INVALID_VALUE);
  DRIVER(cuStreamDestroy(stream));
  DRIVER(cuMemFree(words));
  DRIVER(cuModuleUnload(module));
}

#if CUDA_VERSION >= 12090
CUgraphNode AddSet(CUgraph graph, CUdeviceptr word, unsigned value, CUcontext context) {
  CUDA_MEMSET_NODE_PARAMS set{};
  set.dst = word;
  set.value = value;
  set.elementSize = 4;
  set.width = set.height = 1;
  CUgraphNode node = nullptr;
  DRIVER(cuGraphAddMemsetNode(&node, graph, nullptr, 0, &set, context));
  return node;
}

// A graph moved into another one. It changes as a part of its parent (XLA does so). Some calls
// refuse it.
void CheckInside() {
  CUcontext context = nullptr;
  DRIVER(cuCtxGetCurrent(&context));
  CUdeviceptr word = 0;
  DRIVER(cuMemAlloc(&word, sizeof(unsigned)));
  CUgraph outer = nullptr;
  CUgraph inner = nullptr;
  CUgraph other = nullptr;
  DRIVER(cuGraphCreate(&outer, 0));
  DRIVER(cuGraphCreate(&inner, 0));
  DRIVER(cuGraphCreate(&other, 0));
  const CUgraphNode set_node = AddSet(inner, word, 1, context);
  CUgraphNodeParams child{};
  child.type = CU_GRAPH_NODE_TYPE_GRAPH;
  child.graph.graph = inner;
  child.graph.ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
  CUgraphNode child_node = nullptr;
  CUgraphNode node = nullptr;
  DRIVER(cuGraphAddNode_v2(&child_node, outer, nullptr, nullptr, 0, &child));
  CUgraph inside = nullptr;
  DRIVER(cuGraphChildGraphNodeGetGraph(child_node, &inside));
  EXPECT(inside == inner, "another graph is inside");
  CUgraphExec exec = nullptr;
  EXPECT_RESULT(cuGraphDestroy(inner), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuGraphInstantiateWithFlags(&exec, inner, 0), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_RESULT(cuGraphAddNode_v2(&node, other, nullptr, nullptr, 0, &child),
                CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_RESULT(cuGraphAddChildGraphNode(&node, other, nullptr, 0, inner),
                CUDA_ERROR_NOT_SUPPORTED);

  const auto expect = [&](unsigned wanted) {
    unsigned got = 0;
    DRIVER(cuGraphLaunch(exec, nullptr));
    DRIVER(cuMemcpyDtoH(&got, word, sizeof got));
    EXPECT(got == wanted, "%u, not %u", got, wanted);
  };
  DRIVER(cuGraphInstantiateWithFlags(&exec, outer, 0));
  expect(1);
  CUDA_MEMSET_NODE_PARAMS set{};
  DRIVER(cuGraphMemsetNodeGetParams(set_node, &set));
  set.value = 5;
  DRIVER(cuGraphExecMemsetNodeSetParams(exec, set_node, &set, context));
  expect(5);
  DRIVER(cuGraphExecDestroy(exec));
  DRIVER(cuGraphDestroy(outer));
  DRIVER(cuGraphDestroy(other));
  DRIVER(cuMemFree(word));
}
#else
void CheckInside() {}
#endif

// Rows of 100 bytes in memory with a pitch, and in an array.
void CheckRows() {
  constexpr std::size_t kWidth = 100;
  constexpr std::size_t kRows = 20;
  std::vector<unsigned char> sent(kWidth * kRows);
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<unsigned char>(i * 7);
  CUdeviceptr memory = 0;
  std::size_t pitch = 0;
  DRIVER(cuMemAllocPitch(&memory, &pitch, kWidth, kRows, 4));
  EXPECT(pitch >= kWidth, "%zu", pitch);
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = sent.data();
  copy.srcPitch = kWidth;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = memory;
  copy.dstPitch = pitch;
  copy.WidthInBytes = kWidth;
  copy.Height = kRows;
  DRIVER(cuMemcpy2D(&copy));

  const CUDA_ARRAY_DESCRIPTOR shape{kWidth, kRows, CU_AD_FORMAT_UNSIGNED_INT8, 1};
  CUarray array = nullptr;
  DRIVER(cuArrayCreate(&array, &shape));
  CUDA_ARRAY_DESCRIPTOR told{};
  DRIVER(cuArrayGetDescriptor(&told, array));
  EXPECT(told.Width == kWidth && told.Height == kRows && told.NumChannels == 1, "%zu × %zu",
         told.Width, told.Height);
  copy = {};
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = memory;
  copy.srcPitch = pitch;
  copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.dstArray = array;
  copy.WidthInBytes = kWidth;
  copy.Height = kRows;
  DRIVER(cuMemcpy2D(&copy));

  // Half of each row, from the middle of the rows.
  std::vector<unsigned char> read(kWidth / 2 * kRows);
  copy = {};
  copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.srcArray = array;
  copy.srcXInBytes = kWidth / 2;
  copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy.dstHost = read.data();
  copy.dstPitch = kWidth / 2;
  copy.WidthInBytes = kWidth / 2;
  copy.Height = kRows;
  DRIVER(cuMemcpy2D(&copy));
  for (std::size_t row = 0; row < kRows; ++row) {
    if (std::memcmp(&read[row * kWidth / 2], &sent[row * kWidth + kWidth / 2], kWidth / 2) != 0) {
      EXPECT(false, "row %zu differs", row);
      break;
    }
  }
  copy.Height = kRows + 1;
  EXPECT_RESULT(cuMemcpy2D(&copy), CUDA_ERROR_INVALID_VALUE);
  DRIVER(cuArrayDestroy(array));
  DRIVER(cuMemFree(memory));
}

}  // namespace

int main() {
  DRIVER(cuInit(0));
  CUcontext context = nullptr;
  DRIVER(cuDevicePrimaryCtxRetain(&context, 0));
  DRIVER(cuCtxSetCurrent(context));
  CheckGraph();
  CheckInside();
  CheckRows();
  DRIVER(cuDevicePrimaryCtxRelease(0));
  std::printf("driver_graphs: %s\n", Verdict(failures));
  return ExitStatus(failures);
}

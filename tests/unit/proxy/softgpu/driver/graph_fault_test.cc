// Tests refused graphs, faults of kernels in graphs, and endless loops.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <vector>

#include "tests/unit/proxy/softgpu/driver/graph_harness.h"

namespace cuspan::softgpu {
namespace {

using GraphFaultTest = GraphTest;

[[noreturn]] void FinishAtOnce() { std::_Exit(testing::Test::HasFailure() ? 1 : 0); }

TEST_F(GraphFaultTest, UnknownHandlesAreErrors) {
  CUgraph const no_graph = reinterpret_cast<CUgraph>(0x1234);
  CUgraphNodeParams empty = {};
  empty.type = CU_GRAPH_NODE_TYPE_EMPTY;
  CUgraphNode node = nullptr;
  CUgraphExec exec = nullptr;
  CUgraphConditionalHandle condition = 0;
  CUkernelNodeAttrValue value = {};
  for (CUgraph graph : {no_graph, static_cast<CUgraph>(nullptr)}) {
    EXPECT_EQ(cuGraphDestroy(graph), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuGraphAddNode(&node, graph, nullptr, nullptr, 0, &empty), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuGraphConditionalHandleCreate(&condition, graph, context_, 0, 0),
              CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuGraphInstantiate(&exec, graph, 0), CUDA_ERROR_INVALID_VALUE);
  }
  EXPECT_EQ(cuGraphLaunch(nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphExecDestroy(nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphDestroyNode(nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphKernelNodeSetAttribute(nullptr, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_F(GraphFaultTest, NullAndUnknownFlagsAreErrors) {
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUgraphExec exec = nullptr;
  CUgraphConditionalHandle condition = 0;
  CUgraphNodeParams empty = {};
  empty.type = CU_GRAPH_NODE_TYPE_EMPTY;
  EXPECT_EQ(cuGraphCreate(nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphCreate(&graph, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphAddNode(nullptr, graph_, nullptr, nullptr, 0, &empty), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphAddNode(&node, graph_, nullptr, nullptr, 0, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphConditionalHandleCreate(nullptr, graph_, context_, 0, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphConditionalHandleCreate(&condition, graph_, context_, 0, 2),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphInstantiate(nullptr, graph_, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphInstantiate(&exec, graph_, 1024), CUDA_ERROR_INVALID_VALUE);
  empty.reserved0[1] = 1;
  EXPECT_EQ(cuGraphAddNode(&node, graph_, nullptr, nullptr, 0, &empty), CUDA_ERROR_INVALID_VALUE);
  empty.reserved0[1] = 0;
  empty.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD;
  EXPECT_EQ(cuGraphAddNode(&node, graph_, nullptr, nullptr, 0, &empty), CUDA_ERROR_NOT_SUPPORTED);
}

TEST_F(GraphFaultTest, DependenciesAreOfTheSameGraphAndEachOnce) {
  CUgraph other = nullptr;
  ASSERT_CUDA(cuGraphCreate(&other, 0));
  const auto node = AddAppend(graph_, {}, 1);
  const auto second = AddAppend(graph_, {}, 2);
  const auto stranger = AddAppend(other, {}, 1);
  CUgraphNodeParams empty = {};
  empty.type = CU_GRAPH_NODE_TYPE_EMPTY;
  const auto add = [&](const Nodes& after, const CUgraphEdgeData* edges) {
    CUgraphNode made = nullptr;
    return cuGraphAddNode(&made, graph_, after.data(), edges, after.size(), &empty);
  };
  CUgraphEdgeData edges[2] = {};
  EXPECT_CUDA(add({node, second}, edges));
  EXPECT_EQ(add({stranger}, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(add({node, node}, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(add({nullptr}, nullptr), CUDA_ERROR_INVALID_VALUE);
  edges[1].to_port = 1;
  EXPECT_EQ(add({node, second}, edges), CUDA_ERROR_INVALID_VALUE);
  CUgraphNode made = nullptr;
  EXPECT_EQ(cuGraphAddNode(&made, graph_, nullptr, nullptr, 1, &empty), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphAddNode(&made, graph_, &node, nullptr, SIZE_MAX, &empty),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_CUDA(cuGraphDestroy(other));
}

TEST_F(GraphFaultTest, BadConditionalNodesAreErrors) {
  CUgraph other = nullptr;
  ASSERT_CUDA(cuGraphCreate(&other, 0));
  const auto condition = Condition(graph_);
  const auto add = [&](CUgraph graph, CUgraphConditionalHandle handle, int type, unsigned size) {
    CUgraphNode made = nullptr;
    CUgraphNodeParams params = {};
    params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    params.conditional = {handle, static_cast<CUgraphConditionalNodeType>(type), size, nullptr,
                          context_};
    return cuGraphAddNode(&made, graph, nullptr, nullptr, 0, &params);
  };
  EXPECT_EQ(add(graph_, 0, CU_GRAPH_COND_TYPE_IF, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(add(other, condition, CU_GRAPH_COND_TYPE_IF, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(add(graph_, condition, CU_GRAPH_COND_TYPE_IF, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(add(graph_, condition, CU_GRAPH_COND_TYPE_IF, 3), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(add(graph_, condition, CU_GRAPH_COND_TYPE_WHILE, 2), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(add(graph_, condition, CU_GRAPH_COND_TYPE_SWITCH, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(add(graph_, condition, 3, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_NE(add(graph_, condition, CU_GRAPH_COND_TYPE_SWITCH, UINT32_MAX), CUDA_SUCCESS);
  // The bodies belong to their node.
  std::vector<CUgraph> bodies;
  const auto node = AddConditional(graph_, {}, condition, CU_GRAPH_COND_TYPE_IF, 1, &bodies);
  CUgraphExec exec = nullptr;
  EXPECT_EQ(cuGraphDestroy(bodies[0]), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphInstantiate(&exec, bodies[0], 0), CUDA_ERROR_INVALID_VALUE);
  // A body may use conditions of enclosing graphs, but not vice versa.
  EXPECT_CUDA(add(bodies[0], condition, CU_GRAPH_COND_TYPE_IF, 1));
  EXPECT_EQ(add(graph_, Condition(bodies[0]), CU_GRAPH_COND_TYPE_IF, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CUDA(cuGraphDestroyNode(node));
  CUgraphNode made = nullptr;
  CUgraphNodeParams empty = {};
  empty.type = CU_GRAPH_NODE_TYPE_EMPTY;
  EXPECT_EQ(cuGraphAddNode(&made, bodies[0], nullptr, nullptr, 0, &empty),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_CUDA(cuGraphDestroy(other));
}

TEST_F(GraphFaultTest, BadWorkIsRefused) {
  CUgraphNode made = nullptr;
  const auto add = [&](CUgraphNodeParams params) {
    return cuGraphAddNode(&made, graph_, nullptr, nullptr, 0, &params);
  };
  int value = 1;
  CUdeviceptr to = At(0);
  void* arguments[] = {&to, &value};
  void* missing[] = {&to, nullptr};
  CUgraphNodeParams kernel = {};
  kernel.type = CU_GRAPH_NODE_TYPE_KERNEL;
  kernel.kernel = {Kernel("Store"), 1, 1, 1, 1, 1, 1, 0, arguments, nullptr, nullptr, nullptr};
  EXPECT_CUDA(add(kernel));
  auto bad = kernel;
  bad.kernel.func = reinterpret_cast<CUfunction>(0x1234);
  EXPECT_EQ(add(bad), CUDA_ERROR_INVALID_HANDLE);
  bad = kernel;
  bad.kernel.blockDimX = 2048;
  EXPECT_EQ(add(bad), CUDA_ERROR_INVALID_VALUE);
  bad = kernel;
  bad.kernel.gridDimY = 0;
  EXPECT_EQ(add(bad), CUDA_ERROR_INVALID_VALUE);
  bad = kernel;
  bad.kernel.kernelParams = missing;
  EXPECT_EQ(add(bad), CUDA_ERROR_INVALID_VALUE);
  CUgraphNodeParams fill = {};
  fill.type = CU_GRAPH_NODE_TYPE_MEMSET;
  fill.memset = {At(0), 0, 1, 4, 1, 1, context_};
  EXPECT_CUDA(add(fill));
  bad = fill;
  bad.memset.elementSize = 3;
  EXPECT_EQ(add(bad), CUDA_ERROR_INVALID_VALUE);
  bad = fill;
  bad.memset.dst += 2;
  EXPECT_EQ(add(bad), CUDA_ERROR_INVALID_VALUE);
  bad = fill;
  bad.memset.width = SIZE_MAX / 2;
  EXPECT_EQ(add(bad), CUDA_ERROR_INVALID_VALUE);
  bad = fill;
  bad.memset.dst = 16;
  EXPECT_EQ(add(bad), CUDA_ERROR_INVALID_VALUE);
  CUgraphNodeParams copy = {};
  copy.type = CU_GRAPH_NODE_TYPE_MEMCPY;
  copy.memcpy.copyCtx = context_;
  copy.memcpy.copyParams.srcMemoryType = copy.memcpy.copyParams.dstMemoryType =
      CU_MEMORYTYPE_DEVICE;
  copy.memcpy.copyParams.srcDevice = At(0);
  copy.memcpy.copyParams.dstDevice = 16;
  copy.memcpy.copyParams.WidthInBytes = 4;
  copy.memcpy.copyParams.Height = copy.memcpy.copyParams.Depth = 1;
  EXPECT_EQ(add(copy), CUDA_ERROR_INVALID_VALUE);
}

// --- Lost contexts and endless loops

TEST_F(GraphFaultTest, AFaultEndsALoop) {
  EXPECT_EXIT(
      {
        Put(0, 3);
        const auto condition = Condition(graph_, 1);
        std::vector<CUgraph> body;
        const auto node = AddConditional(graph_, {}, condition, CU_GRAPH_COND_TYPE_WHILE, 1, &body);
        AddKernel(body[0], {}, GraphKernel("TrapAtZero"), At(0));
        AddAppend(graph_, {node}, 1);
        EXPECT_EQ(Run(graph_), CUDA_ERROR_LAUNCH_FAILED);
        EXPECT_EQ(cuGraphDestroy(graph_), CUDA_ERROR_LAUNCH_FAILED);
        FinishAtOnce();
      },
      testing::ExitedWithCode(0), "kernel TrapAtZero");
}

// No handle, a handle of another graph, and a kernel launched outside of a graph.
TEST_F(GraphFaultTest, OtherNumbersThanItsConditionsAreFaultsOfAKernel) {
  for (const int number : {0, 1, 2}) {
    EXPECT_EXIT(
        {
          CUgraph other = nullptr;
          EXPECT_CUDA(cuGraphCreate(&other, 0));
          const CUgraphConditionalHandle known = Condition(other);
          Condition(graph_);
          if (number < 2) {
            AddBlock(33, graph_, {}, GraphKernel("Set"), number == 0 ? 0ULL : known, 1U);
            EXPECT_EQ(Run(graph_), CUDA_ERROR_LAUNCH_FAILED);
          } else {
            EXPECT_CUDA(Launch(GraphKernel("Set"), 1, 1, 0, nullptr, known, 1U));
            EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_LAUNCH_FAILED);
          }
          FinishAtOnce();
        },
        testing::ExitedWithCode(0), "is not a conditional handle of (the|any) graph")
        << number;
  }
}

TEST_F(GraphFaultTest, TheProcessEndsWhileALoopRunsForEver) {
  // Memory in use by the loop is not a leak. The copy of this program reads the variable again.
  setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
  EXPECT_EXIT(
      {
        TestStream empty;
        TestStream busy;
        for (CUstream stream : {static_cast<CUstream>(empty), static_cast<CUstream>(busy)}) {
          CUgraph graph = nullptr;
          EXPECT_CUDA(cuGraphCreate(&graph, 0));
          std::vector<CUgraph> body;
          AddConditional(graph, {}, Condition(graph, 1), CU_GRAPH_COND_TYPE_WHILE, 1, &body);
          // Memory not used elsewhere.
          if (stream == busy) AddFill(body[0], {}, kInts, 1);
          EXPECT_CUDA(cuGraphLaunch(Instantiate(graph), stream));
          EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
        }
        // Other streams make progress meanwhile.
        EXPECT_CUDA(Launch(GraphKernel("Append"), 1, 1, 0, nullptr, At(kLog), 1));
        EXPECT_EQ(ConsumeLog(), std::vector<int>{1});
        std::exit(testing::Test::HasFailure() ? 1 : 0);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace cuspan::softgpu

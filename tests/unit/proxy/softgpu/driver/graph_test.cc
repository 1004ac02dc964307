// Tests graphs with conditional nodes. (CUDA Driver API, "Graph Management"; CUDA C++ Programming
// Guide, "Conditional Graph Nodes")
#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "tests/unit/proxy/softgpu/driver/graph_harness.h"

namespace cuspan::softgpu {
namespace {

TEST_F(GraphTest, IfChoosesBetweenItsBodies) {
  for (const unsigned value : {0U, 1U, 7U}) {
    CUgraph graph = nullptr;
    ASSERT_CUDA(cuGraphCreate(&graph, 0));
    const auto condition = Condition(graph, value);
    std::vector<CUgraph> bodies;
    const auto node = AddConditional(graph, {}, condition, CU_GRAPH_COND_TYPE_IF, 2, &bodies);
    ASSERT_EQ(bodies.size(), 2U);
    AddAppend(bodies[0], {}, 1);
    AddAppend(bodies[1], {}, 2);
    AddAppend(graph, {node}, 3);
    EXPECT_CUDA(Run(graph));
    EXPECT_EQ(ConsumeLog(), (std::vector<int>{value != 0 ? 1 : 2, 3})) << value;
    EXPECT_CUDA(cuGraphDestroy(graph));
  }
}

TEST_F(GraphTest, IfWithoutElseDoesNothingWhenFalse) {
  const auto condition = Condition(graph_, 0);
  std::vector<CUgraph> bodies;
  const auto node = AddConditional(graph_, {}, condition, CU_GRAPH_COND_TYPE_IF, 1, &bodies);
  AddAppend(bodies[0], {}, 1);
  AddAppend(graph_, {node}, 2);
  EXPECT_CUDA(Run(graph_));
  EXPECT_EQ(ConsumeLog(), std::vector<int>{2});
}

TEST_F(GraphTest, WhileRunsUntilItsConditionIsZero) {
  Put(0, 1000);
  AddLoop(graph_, {}, 0, 1);
  EXPECT_CUDA(Run(graph_));
  EXPECT_EQ(Value(0), 0);
  EXPECT_EQ(Value(1), 1000);
}

TEST_F(GraphTest, WhileIsNotEnteredWhenItsConditionIsZero) {
  const auto condition = Condition(graph_, 0);
  std::vector<CUgraph> body;
  const auto node = AddConditional(graph_, {}, condition, CU_GRAPH_COND_TYPE_WHILE, 1, &body);
  AddAppend(body[0], {}, 1);
  AddAppend(graph_, {node}, 2);
  EXPECT_CUDA(Run(graph_));
  EXPECT_EQ(ConsumeLog(), std::vector<int>{2});
}

TEST_F(GraphTest, SwitchRunsTheBodyOfThatNumber) {
  for (const unsigned value : {0U, 1U, 2U, 3U, 0xffffffffU}) {
    CUgraph graph = nullptr;
    ASSERT_CUDA(cuGraphCreate(&graph, 0));
    const auto condition = Condition(graph, value);
    std::vector<CUgraph> bodies;
    const auto node = AddConditional(graph, {}, condition, CU_GRAPH_COND_TYPE_SWITCH, 3, &bodies);
    for (int i = 0; i < 3; ++i) AddAppend(bodies[i], {}, i);
    AddAppend(graph, {node}, 9);
    EXPECT_CUDA(Run(graph));
    EXPECT_EQ(ConsumeLog(),
              value < 3 ? (std::vector<int>{static_cast<int>(value), 9}) : std::vector<int>{9});
    EXPECT_CUDA(cuGraphDestroy(graph));
  }
}

// A loop of 3 rounds contains a loop of 4 rounds. The latter contains a step run at odd counts.
TEST_F(GraphTest, ConditionalNodesNest) {
  constexpr std::size_t kOuter = 0, kInner = 1, kRounds = 2, kOdd = 3;
  Put(kOuter, 3);
  const auto outer = Condition(graph_, 1);
  const auto inner = Condition(graph_);
  const auto odd = Condition(graph_);
  std::vector<CUgraph> round, step, seldom;
  AddConditional(graph_, {}, outer, CU_GRAPH_COND_TYPE_WHILE, 1, &round);
  const auto filled = AddFill(round[0], {}, kInner, 4);
  const auto set = AddKernel(round[0], {filled}, GraphKernel("Set"), inner, 1U);
  const auto loop = AddConditional(round[0], {set}, inner, CU_GRAPH_COND_TYPE_WHILE, 1, &step);
  AddKernel(round[0], {loop}, GraphKernel("CountDown"), outer, At(kOuter));
  const auto counted = AddKernel(step[0], {}, Kernel("Increment"), At(kRounds));
  const auto down = AddKernel(step[0], {counted}, GraphKernel("CountDown"), inner, At(kInner));
  const auto decided = AddKernel(step[0], {down}, GraphKernel("SetIfOdd"), odd, At(kInner));
  AddConditional(step[0], {decided}, odd, CU_GRAPH_COND_TYPE_IF, 1, &seldom);
  AddKernel(seldom[0], {}, Kernel("Increment"), At(kOdd));
  EXPECT_CUDA(Run(graph_));
  EXPECT_EQ(Value(kOuter), 0);
  EXPECT_EQ(Value(kRounds), 12);
  EXPECT_EQ(Value(kOdd), 6);  // Odd: 3 and 1 of 3, 2, 1, 0.
}

TEST_F(GraphTest, TheDefaultIsAssignedAtEachLaunch) {
  const auto condition = Condition(graph_, 1);
  std::vector<CUgraph> body;
  AddConditional(graph_, {}, condition, CU_GRAPH_COND_TYPE_IF, 1, &body);
  const auto counted = AddKernel(body[0], {}, Kernel("Increment"), At(0));
  AddKernel(body[0], {counted}, GraphKernel("Set"), condition, 0U);
  EXPECT_CUDA(Run(graph_, 3));
  EXPECT_EQ(Value(0), 3);
}

TEST_F(GraphTest, AConditionWithoutDefaultIsWhatAKernelSets) {
  for (const unsigned value : {1U, 0U, 1U}) {
    CUgraph graph = nullptr;
    ASSERT_CUDA(cuGraphCreate(&graph, 0));
    const auto condition = Condition(graph, 0, 0);
    const auto set = AddKernel(graph, {}, GraphKernel("Set"), condition, value);
    std::vector<CUgraph> body;
    AddConditional(graph, {set}, condition, CU_GRAPH_COND_TYPE_IF, 1, &body);
    AddAppend(body[0], {}, 1);
    EXPECT_CUDA(Run(graph));
    EXPECT_EQ(ConsumeLog().size(), value);
    EXPECT_CUDA(cuGraphDestroy(graph));
  }
}

// One lane of a warp, the last warp of a block, and a block with barriers.
TEST_F(GraphTest, AnyThreadOfAKernelMaySetACondition) {
  struct Case {
    const char* kernel;
    unsigned threads, thread, value;
  };
  for (const auto& [kernel, threads, thread, value] :
       {Case{"SetByOne", 1, 0, 2}, Case{"SetByOne", 32, 13, 1}, Case{"SetByOne", 100, 99, 2},
        Case{"SetSum", 4, 0, 6}, Case{"SetSum", 64, 0, 64 * 63 / 2 % 11}}) {
    CUgraph graph = nullptr;
    ASSERT_CUDA(cuGraphCreate(&graph, 0));
    const auto condition = Condition(graph);
    const CUgraphNode set =
        AddBlock(threads, graph, {}, GraphKernel(kernel), condition, value, thread);
    std::vector<CUgraph> bodies;
    AddConditional(graph, {set}, condition, CU_GRAPH_COND_TYPE_SWITCH, value + 1, &bodies);
    for (unsigned i = 0; i <= value; ++i) AddAppend(bodies[i], {}, static_cast<int>(i));
    EXPECT_CUDA(Run(graph));
    EXPECT_EQ(ConsumeLog(), std::vector<int>{static_cast<int>(value)}) << kernel << threads;
    EXPECT_CUDA(cuGraphDestroy(graph));
  }
}

TEST_F(GraphTest, KernelsThatRunThreadByThreadSetConditions) {
  // Settings are read once per process. The copy of this program starts with this setting.
  setenv("CUSPAN_SOFT_MODEL", "thread", 1);
  EXPECT_EXIT(
      {
        Put(0, 5);
        const auto condition = Condition(graph_);
        const auto set = AddBlock(64, graph_, {}, GraphKernel("SetSum"), condition);
        std::vector<CUgraph> body;
        const auto node = AddConditional(graph_, {set}, condition, CU_GRAPH_COND_TYPE_IF, 1, &body);
        AddAppend(body[0], {}, 1);
        AddLoop(graph_, {node}, 0, 1);
        EXPECT_CUDA(Run(graph_));
        EXPECT_EQ(ConsumeLog(), std::vector<int>{1});
        EXPECT_EQ(Value(1), 5);
        std::_Exit(testing::Test::HasFailure() ? 1 : 0);
      },
      testing::ExitedWithCode(0), "");
  unsetenv("CUSPAN_SOFT_MODEL");
}

TEST_F(GraphTest, ALaunchIsInItsStreamsOrder) {
  TestStream stream;
  Put(0, 100);
  const auto loop = AddLoop(graph_, {}, 0, 1);
  AddAppend(graph_, {loop}, 2);
  CUgraphExec exec = Instantiate(graph_);
  Gate gate(Kernel("WaitFor"), stream);
  ASSERT_CUDA(Launch(GraphKernel("Append"), 1, 1, 0, stream, At(kLog), 1));
  ASSERT_CUDA(cuGraphLaunch(exec, stream));
  ASSERT_CUDA(Launch(GraphKernel("Append"), 1, 1, 0, stream, At(kLog), 3));
  EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
  gate.Open();
  ASSERT_CUDA(cuStreamSynchronize(stream));
  EXPECT_EQ(ConsumeLog(), (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(Value(1), 100);
  EXPECT_CUDA(cuGraphExecDestroy(exec));
}

// Concurrent launches would lose counts.
TEST_F(GraphTest, LaunchesOfOneGraphDoNotOverlap) {
  TestStream one, other;
  const auto filled = AddFill(graph_, {}, 0, 20);
  AddLoop(graph_, {filled}, 0, 1);
  CUgraphExec exec = Instantiate(graph_);
  for (int i = 0; i < 20; ++i) {
    ASSERT_CUDA(cuGraphLaunch(exec, one));
    ASSERT_CUDA(cuGraphLaunch(exec, other));
  }
  ASSERT_CUDA(cuCtxSynchronize());
  EXPECT_EQ(Value(1), 20 * 2 * 20);
  EXPECT_CUDA(cuGraphExecDestroy(exec));
}

TEST_F(GraphTest, ALaunchOutlivesItsGraph) {
  TestStream stream;
  CUgraph graph = nullptr;
  ASSERT_CUDA(cuGraphCreate(&graph, 0));
  const auto filled = AddFill(graph, {}, 0, 10);
  AddLoop(graph, {filled}, 0, 1);
  CUgraphExec exec = Instantiate(graph);
  Gate gate(Kernel("WaitFor"), stream);
  ASSERT_CUDA(cuGraphLaunch(exec, stream));
  EXPECT_CUDA(cuGraphExecDestroy(exec));
  EXPECT_CUDA(cuGraphDestroy(graph));
  EXPECT_EQ(cuGraphLaunch(exec, stream), CUDA_ERROR_INVALID_VALUE);
  gate.Open();
  ASSERT_CUDA(cuStreamSynchronize(stream));
  EXPECT_EQ(Value(1), 10);
}

TEST_F(GraphTest, AnExecutableGraphIsASnapshot) {
  const auto first = AddAppend(graph_, {}, 1);
  CUgraphExec exec = Instantiate(graph_);
  AddAppend(graph_, {first}, 2);
  ASSERT_CUDA(cuGraphLaunch(exec, nullptr));
  EXPECT_EQ(ConsumeLog(), std::vector<int>{1});
  EXPECT_CUDA(cuGraphExecDestroy(exec));
  // Destroying a node removes its edges.
  EXPECT_CUDA(cuGraphDestroyNode(first));
  EXPECT_EQ(cuGraphDestroyNode(first), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CUDA(Run(graph_));
  EXPECT_EQ(ConsumeLog(), std::vector<int>{2});
}

TEST_F(GraphTest, NodesRunAfterThoseTheyDependOn) {
  const auto top = AddAppend(graph_, {}, 1);
  const auto left = AddAppend(graph_, {top}, 2);
  const auto right = AddAppend(graph_, {top}, 3);
  CUgraphNodeParams empty = {};
  empty.type = CU_GRAPH_NODE_TYPE_EMPTY;
  const auto join = Add(graph_, &empty, {left, right});
  AddAppend(graph_, {join}, 4);
  EXPECT_CUDA(Run(graph_));
  const std::vector<int> log = ConsumeLog();
  ASSERT_EQ(log.size(), 4U);
  EXPECT_EQ(log.front(), 1);
  EXPECT_EQ(log.back(), 4);
  EXPECT_EQ(log[1] + log[2], 2 + 3);
}

// Each round fills rows of 2-byte elements and copies a box of them.
TEST_F(GraphTest, MemsetsAndCopiesRunInBodies) {
  DeviceMemory rows(4096), copied(4096);
  rows.Write(std::vector<std::uint16_t>(2048, 0xffff));
  copied.Write(std::vector<std::uint16_t>(2048, 0));
  Put(0, 2);
  const auto condition = Condition(graph_, 1);
  std::vector<CUgraph> body;
  AddConditional(graph_, {}, condition, CU_GRAPH_COND_TYPE_WHILE, 1, &body);
  CUgraphNodeParams fill = {};
  fill.type = CU_GRAPH_NODE_TYPE_MEMSET;
  fill.memset = {rows.address() + 4, 64, 0x1234, 2, 5, 3, context_};
  const auto filled = Add(body[0], &fill, {});
  CUgraphNodeParams copy = {};
  copy.type = CU_GRAPH_NODE_TYPE_MEMCPY;
  copy.memcpy.copyCtx = context_;
  CUDA_MEMCPY3D& box = copy.memcpy.copyParams;
  box.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  box.srcDevice = rows.address();
  box.srcPitch = 64;
  box.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  box.dstDevice = copied.address();
  box.dstPitch = 16;
  box.WidthInBytes = 16;
  box.Height = 3;
  box.Depth = 1;
  const auto moved = Add(body[0], &copy, {filled});
  AddKernel(body[0], {moved}, GraphKernel("CountDown"), condition, At(0));
  EXPECT_CUDA(Run(graph_));
  const auto all = rows.Read<std::uint16_t>(2048);
  for (std::size_t i = 0; i < 128; ++i) {
    const bool inside = i / 32 < 3 && i % 32 >= 2 && i % 32 < 7;
    EXPECT_EQ(all[i], inside ? 0x1234 : 0xffff) << i;
  }
  const auto part = copied.Read<std::uint16_t>(32);
  for (std::size_t i = 0; i < 32; ++i) {
    EXPECT_EQ(part[i], i >= 24 ? 0 : i % 8 >= 2 && i % 8 < 7 ? 0x1234 : 0xffff) << i;
  }
}

TEST_F(GraphTest, CopiesReachHostMemoryAndArrays) {
  const std::vector<int> source = {1, 2, 3, 4};
  std::vector<int> target(4);
  CUarray array = nullptr;
  CUDA_ARRAY_DESCRIPTOR descriptor = {4, 0, CU_AD_FORMAT_SIGNED_INT32, 1};
  ASSERT_CUDA(cuArrayCreate(&array, &descriptor));
  CUgraphNodeParams in = {};
  in.type = CU_GRAPH_NODE_TYPE_MEMCPY;
  in.memcpy.copyCtx = context_;
  in.memcpy.copyParams.srcMemoryType = CU_MEMORYTYPE_HOST;
  in.memcpy.copyParams.srcHost = source.data();
  in.memcpy.copyParams.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  in.memcpy.copyParams.dstArray = array;
  in.memcpy.copyParams.WidthInBytes = 16;
  in.memcpy.copyParams.Height = in.memcpy.copyParams.Depth = 1;
  const auto there = Add(graph_, &in, {});
  CUgraphNodeParams out = {};
  out.type = CU_GRAPH_NODE_TYPE_MEMCPY;
  out.memcpy.copyCtx = context_;
  out.memcpy.copyParams.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  out.memcpy.copyParams.srcArray = array;
  out.memcpy.copyParams.dstMemoryType = CU_MEMORYTYPE_HOST;
  out.memcpy.copyParams.dstHost = target.data();
  out.memcpy.copyParams.WidthInBytes = 16;
  out.memcpy.copyParams.Height = out.memcpy.copyParams.Depth = 1;
  Add(graph_, &out, {there});
  EXPECT_CUDA(Run(graph_));
  EXPECT_EQ(target, source);
  EXPECT_CUDA(cuArrayDestroy(array));
}

TEST_F(GraphTest, KernelNodesCanBeCooperative) {
  void* arguments[2];
  CUdeviceptr arrived = At(0), wrong = At(1);
  arguments[0] = &arrived;
  arguments[1] = &wrong;
  CUgraphNodeParams params = {};
  params.type = CU_GRAPH_NODE_TYPE_KERNEL;
  params.kernel.func = Kernel("GridSync");
  params.kernel.gridDimX = 4;
  params.kernel.gridDimY = params.kernel.gridDimZ = 1;
  params.kernel.blockDimX = 32;
  params.kernel.blockDimY = params.kernel.blockDimZ = 1;
  params.kernel.kernelParams = arguments;
  const CUgraphNode node = Add(graph_, &params, {});
  CUkernelNodeAttrValue value = {};
  value.cooperative = 1;
  ASSERT_CUDA(cuGraphKernelNodeSetAttribute(node, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value));
  EXPECT_CUDA(Run(graph_));
  EXPECT_EQ(Value(0), 12);
  EXPECT_EQ(Value(1), 0);
  EXPECT_EQ(cuGraphKernelNodeSetAttribute(node, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, nullptr),
            CUDA_ERROR_INVALID_VALUE);
}

// Kernels launched by a kernel are part of its node.
TEST_F(GraphTest, KernelNodesMayLaunchKernels) {
  CUmodule launching = nullptr;
  ASSERT_CUDA(cuModuleLoadData(&launching, ReadTestFile("device_launch.ptx").data()));
  CUfunction again = nullptr;
  ASSERT_CUDA(cuModuleGetFunction(&again, launching, "Again"));
  Put(1, 3);
  const auto condition = Condition(graph_, 1);
  std::vector<CUgraph> body;
  AddConditional(graph_, {}, condition, CU_GRAPH_COND_TYPE_WHILE, 1, &body);
  const auto counted = AddKernel(body[0], {}, again, At(0), 5);
  AddKernel(body[0], {counted}, GraphKernel("CountDown"), condition, At(1));
  EXPECT_CUDA(Run(graph_));
  EXPECT_EQ(Value(0), 15);
  EXPECT_CUDA(cuModuleUnload(launching));
}

}  // namespace
}  // namespace cuspan::softgpu

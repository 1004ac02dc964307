// Graphs for tests, with nodes made by the driver's functions.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/unit/proxy/softgpu/driver/driver_harness.h"

namespace cuspan::softgpu {

using Nodes = std::vector<CUgraphNode>;

// Provides an empty graph, zeroed memory, and the kernels of graph.cu.
class GraphTest : public DriverTest {
 protected:
  // Code losing the context, or never ending, runs in a fresh copy of this program.
  GraphTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  void SetUp() override {
    DriverTest::SetUp();
    ASSERT_CUDA(cuModuleLoadData(&graph_module_, ReadTestFile("graph.ptx").data()));
    ASSERT_CUDA(cuGraphCreate(&graph_, 0));
    memory_ = std::make_unique<DeviceMemory>((kInts + 1) * sizeof(int));
    memory_->Write(std::vector<int>(kInts));
  }
  void TearDown() override {
    EXPECT_CUDA(cuGraphDestroy(graph_));
    memory_.reset();
    EXPECT_CUDA(cuModuleUnload(graph_module_));
    DriverTest::TearDown();
  }

  CUfunction GraphKernel(const char* name) {
    CUfunction function = nullptr;
    EXPECT_CUDA(cuModuleGetFunction(&function, graph_module_, name)) << name;
    return function;
  }
  // Address of word `index` of the test's memory.
  CUdeviceptr At(std::size_t index) const { return memory_->address() + index * sizeof(int); }
  int Value(std::size_t index) const { return memory_->Read<int>(index + 1)[index]; }
  void Put(std::size_t index, int value) const {
    EXPECT_CUDA(cuMemsetD32Async(At(index), static_cast<unsigned>(value), 1, nullptr));
    EXPECT_CUDA(cuStreamSynchronize(nullptr));
  }
  // Entries written by Append since the last call.
  std::vector<int> ConsumeLog() const {
    const std::vector<int> words = memory_->Read<int>(kInts);
    Put(kLog, 0);
    return {words.begin() + kLog + 1, words.begin() + kLog + 1 + words[kLog]};
  }

  CUgraphConditionalHandle Condition(CUgraph graph, unsigned value = 0,
                                     unsigned flags = CU_GRAPH_COND_ASSIGN_DEFAULT) const {
    CUgraphConditionalHandle condition = 0;
    EXPECT_CUDA(cuGraphConditionalHandleCreate(&condition, graph, context_, value, flags));
    return condition;
  }
  static CUgraphNode Add(CUgraph graph, CUgraphNodeParams* params, const Nodes& after) {
    CUgraphNode node = nullptr;
    EXPECT_CUDA(cuGraphAddNode(&node, graph, after.data(), nullptr, after.size(), params));
    return node;
  }
  template <typename... Args>
  static CUgraphNode AddBlock(unsigned threads, CUgraph graph, const Nodes& after,
                              CUfunction function, Args... args) {
    void* pointers[] = {&args..., nullptr};
    CUgraphNodeParams params = {};
    params.type = CU_GRAPH_NODE_TYPE_KERNEL;
    params.kernel.func = function;
    params.kernel.gridDimX = params.kernel.gridDimY = params.kernel.gridDimZ = 1;
    params.kernel.blockDimX = threads;
    params.kernel.blockDimY = params.kernel.blockDimZ = 1;
    params.kernel.kernelParams = pointers;
    return Add(graph, &params, after);
  }
  template <typename... Args>
  static CUgraphNode AddKernel(CUgraph graph, const Nodes& after, CUfunction function,
                               Args... args) {
    return AddBlock(1, graph, after, function, args...);
  }
  CUgraphNode AddAppend(CUgraph graph, const Nodes& after, int value) {
    return AddKernel(graph, after, GraphKernel("Append"), At(kLog), value);
  }
  CUgraphNode AddFill(CUgraph graph, const Nodes& after, std::size_t index, int value) {
    CUgraphNodeParams params = {};
    params.type = CU_GRAPH_NODE_TYPE_MEMSET;
    params.memset = {At(index), 0, static_cast<unsigned>(value), 4, 1, 1, context_};
    return Add(graph, &params, after);
  }
  CUgraphNode AddConditional(CUgraph graph, const Nodes& after, CUgraphConditionalHandle condition,
                             CUgraphConditionalNodeType type, unsigned size,
                             std::vector<CUgraph>* bodies) {
    CUgraphNodeParams params = {};
    params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    params.conditional = {condition, type, size, nullptr, context_};
    const CUgraphNode node = Add(graph, &params, after);
    if (params.conditional.phGraph_out != nullptr)
      bodies->assign(params.conditional.phGraph_out, params.conditional.phGraph_out + size);
    return node;
  }
  // Adds a while node. Each round counts word `count` down, until 0, and word `rounds` up.
  CUgraphNode AddLoop(CUgraph graph, const Nodes& after, std::size_t count, std::size_t rounds) {
    const auto condition = Condition(graph, 1);
    std::vector<CUgraph> body;
    const CUgraphNode node =
        AddConditional(graph, after, condition, CU_GRAPH_COND_TYPE_WHILE, 1, &body);
    const auto counted = AddKernel(body[0], {}, Kernel("Increment"), At(rounds));
    AddKernel(body[0], {counted}, GraphKernel("CountDown"), condition, At(count));
    return node;
  }

  static CUgraphExec Instantiate(CUgraph graph) {
    CUgraphExec exec = nullptr;
    EXPECT_CUDA(cuGraphInstantiate(&exec, graph, 0));
    return exec;
  }
  // Launches the graph `times` times and returns the result of waiting.
  static CUresult Run(CUgraph graph, int times = 1) {
    CUgraphExec exec = Instantiate(graph);
    for (int i = 0; i < times; ++i) EXPECT_CUDA(cuGraphLaunch(exec, nullptr));
    // Also waits for the end of failed work, and thus for its message.
    const CUresult result = cuCtxSynchronize();
    if (result != CUDA_SUCCESS) return result;
    EXPECT_CUDA(cuGraphExecDestroy(exec));
    return result;
  }

  static constexpr std::size_t kInts = 4096;  // Another one is not read by tests.
  static constexpr std::size_t kLog = 1024;   // Start of the log.
  CUmodule graph_module_ = nullptr;
  CUgraph graph_ = nullptr;
  std::unique_ptr<DeviceMemory> memory_;
};

}  // namespace cuspan::softgpu

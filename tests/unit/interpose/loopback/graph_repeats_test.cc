// Graphs launched more than once. The device gets these as a whole.
#include <algorithm>

#include "tests/unit/interpose/loopback/graphs_fixture.h"

namespace cuspan {
namespace {

class GraphRepeatsTest : public GraphsFixture {
 protected:
  // Adds a chain of nodes after `before`, each adding `value` to the first word. Returns the last
  // node.
  cudaGraphNode_t AddChain(std::uint32_t* words, std::size_t count, std::uint32_t value,
                           const Nodes& before = {}) {
    cudaGraphNode_t last = AddNode(words, 1, value, before);
    for (std::size_t i = 1; i < count; ++i) last = AddNode(words, 1, value, {last});
    return last;
  }
  cudaGraphNode_t HostNode(cudaHostFn_t function, void* data, const Nodes& before) const {
    const cudaHostNodeParams parameters{function, data};
    cudaGraphNode_t node = nullptr;
    EXPECT_CUDA(cudaGraphAddHostNode(&node, graph, before.data(), before.size(), &parameters));
    return node;
  }
  void Launch(cudaGraphExec_t exec, std::size_t times) const {
    for (std::size_t i = 0; i < times; ++i) ASSERT_CUDA(cudaGraphLaunch(exec, stream));
    ASSERT_CUDA(cudaStreamSynchronize(stream));
  }
  // Returns the number of graph launches in the log of the device's driver.
  long Graphs() {
    const auto log = gpu().Log();
    return std::count_if(log.begin(), log.end(),
                         [](const std::string& entry) { return entry.starts_with("graph "); });
  }
};

TEST_F(GraphRepeatsTest, AreTheDevicesFromTheSecondLaunchOn) {
  std::uint32_t* const words = NewWords(2);
  cudaGraphNode_t set = SetNode(words, 7, 4, 1);
  cudaGraphNode_t add = AddNode(words, 1, 1, {set});
  cudaGraphNode_t copy = nullptr;
  ASSERT_CUDA(cudaGraphAddMemcpyNode1D(&copy, graph, &add, 1, words + 1, words, 4,
                                       cudaMemcpyDeviceToDevice));
  cudaGraphExec_t exec = Instantiate();
  Launch(exec, 1);
  EXPECT_EQ(Graphs(), 0);
  EXPECT_EQ(Read(words, 2), (std::vector<std::uint32_t>{8, 8}));
  ASSERT_CUDA(cudaMemset(words, 0, 8));
  Launch(exec, 2);
  EXPECT_EQ(Graphs(), 2);
  EXPECT_EQ(Read(words, 2), (std::vector<std::uint32_t>{8, 8}));
  EXPECT_CUDA(cudaGraphExecDestroy(exec));
}

TEST_F(GraphRepeatsTest, UploadsGiveThemToTheDevice) {
  std::uint32_t* const words = NewWords(1);
  cudaGraphNode_t add = AddChain(words, 3, 1);
  cudaGraphExec_t exec = Instantiate();
  ASSERT_CUDA(cudaGraphUpload(exec, stream));
  AddKernel ten(Kernel("add"), words, 1, 10);
  ASSERT_CUDA(cudaGraphExecKernelNodeSetParams(exec, add, &ten.parameters));
  ASSERT_CUDA(cudaGraphUpload(exec, stream));
  Launch(exec, 1);
  EXPECT_EQ(Graphs(), 1);
  EXPECT_EQ(Read(words, 1).front(), 12U);
  EXPECT_CUDA_ERROR(cudaGraphUpload(nullptr, stream), cudaErrorInvalidValue);
}

TEST_F(GraphRepeatsTest, AFewNodesAreNotWorthIt) {
  std::uint32_t* const words = NewWords(1);
  AddChain(words, 2, 1);
  Launch(Instantiate(), 3);
  EXPECT_EQ(Graphs(), 0);
  EXPECT_EQ(Read(words, 1).front(), 6U);
}

TEST_F(GraphRepeatsTest, ChangesAreForLaterLaunchesAlone) {
  std::uint32_t* const words = NewWords(2);
  cudaGraphNode_t set = SetNode(words, 5, 4, 1);
  cudaGraphNode_t add = AddNode(words, 1, 1, {set});
  cudaGraphNode_t copy = nullptr;
  ASSERT_CUDA(cudaGraphAddMemcpyNode1D(&copy, graph, &add, 1, words + 1, words, 4,
                                       cudaMemcpyDeviceToDevice));
  cudaGraphExec_t exec = Instantiate();
  Launch(exec, 2);
  std::uint32_t* const kept = NewWords(1);
  std::uint32_t* const elsewhere = NewWords(1);
  Hold(stream);
  ASSERT_CUDA(cudaGraphLaunch(exec, stream));
  ASSERT_CUDA(cudaMemcpyAsync(kept, words + 1, 4, cudaMemcpyDeviceToDevice, stream));
  AddKernel ten(Kernel("add"), words, 1, 10);
  ASSERT_CUDA(cudaGraphExecKernelNodeSetParams(exec, add, &ten.parameters));
  const cudaMemsetParams seven{words, 0, 7, 4, 1, 1};
  ASSERT_CUDA(cudaGraphExecMemsetNodeSetParams(exec, set, &seven));
  ASSERT_CUDA(cudaGraphExecMemcpyNodeSetParams1D(exec, copy, elsewhere, words, 4,
                                                 cudaMemcpyDeviceToDevice));
  ASSERT_CUDA(cudaGraphLaunch(exec, stream));
  Let(stream);
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(Read(kept, 1).front(), 6U);
  EXPECT_EQ(Read(words, 2), (std::vector<std::uint32_t>{17, 6}));
  EXPECT_EQ(Read(elsewhere, 1).front(), 17U);
  EXPECT_EQ(Graphs(), 3);
}

TEST_F(GraphRepeatsTest, UpdatesTellWhatHasChanged) {
  std::uint32_t* const words = NewWords(1);
  AddChain(words, 4, 1);
  cudaGraphExec_t exec = Instantiate();
  std::uint32_t expected = 0;
  for (std::uint32_t value = 1; value < 5; ++value) {
    ASSERT_CUDA(cudaGraphDestroy(graph));
    ASSERT_CUDA(cudaGraphCreate(&graph, 0));
    AddChain(words, 3, 1, {AddNode(words, 1, value * 100)});
    cudaGraphExecUpdateResultInfo info{};
    ASSERT_CUDA(cudaGraphExecUpdate(exec, graph, &info));
    Launch(exec, 1);
    expected += value * 100 + 3;
    EXPECT_EQ(Read(words, 1).front(), expected);
  }
  EXPECT_EQ(Graphs(), 3);
}

TEST_F(GraphRepeatsTest, GraphsInsideAreChangedToo) {
  std::uint32_t* const words = NewWords(1);
  AddChain(words, 3, 1);
  cudaGraph_t inner = graph;
  ASSERT_CUDA(cudaGraphCreate(&graph, 0));
  cudaGraphNode_t child = nullptr;
  ASSERT_CUDA(cudaGraphAddChildGraphNode(&child, graph, nullptr, 0, inner));
  AddNode(words, 1, 1, {child});
  cudaGraphExec_t exec = Instantiate();
  Launch(exec, 2);
  EXPECT_EQ(Read(words, 1).front(), 8U);
  std::swap(graph, inner);
  ASSERT_CUDA(cudaGraphDestroy(graph));
  ASSERT_CUDA(cudaGraphCreate(&graph, 0));
  AddChain(words, 3, 10);
  ASSERT_CUDA(cudaGraphExecChildGraphNodeSetParams(exec, child, graph));
  Launch(exec, 1);
  EXPECT_EQ(Read(words, 1).front(), 39U);
  EXPECT_EQ(Graphs(), 2);
  EXPECT_CUDA(cudaGraphDestroy(inner));
}

TEST_F(GraphRepeatsTest, WhatTheHostDoesParts) {
  std::uint32_t* const words = NewWords(1);
  static std::atomic<int> calls;
  calls = 0;
  cudaGraphNode_t host = HostNode([](void*) { ++calls; }, nullptr, {AddChain(words, 3, 1)});
  AddChain(words, 3, 10, {host});
  cudaGraphExec_t exec = Instantiate();
  Launch(exec, 3);
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(Graphs(), 4);
  EXPECT_EQ(Read(words, 1).front(), 99U);
}

TEST_F(GraphRepeatsTest, NodesAreLeftOutAndTakenInAgain) {
  std::uint32_t* const words = NewWords(1);
  cudaGraphNode_t first = AddNode(words, 1, 100);
  AddChain(words, 3, 1, {first});
  cudaGraphExec_t exec = Instantiate();
  Launch(exec, 2);
  ASSERT_CUDA(cudaGraphNodeSetEnabled(exec, first, 0));
  Launch(exec, 2);
  EXPECT_EQ(Read(words, 1).front(), 212U);
  ASSERT_CUDA(cudaGraphNodeSetEnabled(exec, first, 1));
  Launch(exec, 2);
  EXPECT_EQ(Read(words, 1).front(), 418U);
}

TEST_F(GraphRepeatsTest, WhatTheDriverRefusesTheClientDoes) {
  std::uint32_t* const words = NewWords(1);
  AddChain(words, 3, 1);
  gpu().Refuse("cuGraphInstantiate", CUDA_ERROR_NOT_SUPPORTED);
  Launch(Instantiate(), 3);
  EXPECT_EQ(Read(words, 1).front(), 9U);
  EXPECT_EQ(Graphs(), 0);
}

TEST_F(GraphRepeatsTest, AChangeThatTheDriverRefusesFailsTheLaunch) {
  std::uint32_t* const words = NewWords(1);
  cudaGraphNode_t add = AddChain(words, 3, 1);
  cudaGraphExec_t exec = Instantiate();
  Launch(exec, 2);
  gpu().Refuse("cuGraphExecNodeSetParams", CUDA_ERROR_INVALID_VALUE);
  AddKernel ten(Kernel("add"), words, 1, 10);
  ASSERT_CUDA(cudaGraphExecKernelNodeSetParams(exec, add, &ten.parameters));
  ASSERT_CUDA(cudaGraphLaunch(exec, stream));
  EXPECT_CUDA_ERROR(cudaStreamSynchronize(stream), cudaErrorInvalidValue);
  EXPECT_EQ(Read(words, 1).front(), 6U);
}

TEST_F(GraphRepeatsTest, KernelsOfAnUnloadedLibraryAreNotLaunched) {
  cudaLibrary_t library = nullptr;
  ASSERT_CUDA(cudaLibraryLoadData(&library, ".version 8.0\n.target sm_80\n.address_size 64\n",
                                  nullptr, nullptr, 0, nullptr, nullptr, 0));
  cudaKernel_t kernel = nullptr;
  ASSERT_CUDA(cudaLibraryGetKernel(&kernel, library, "add"));
  std::uint32_t* const words = NewWords(1);
  cudaGraphNode_t last = AddChain(words, 2, 1);
  AddKernel add(kernel, words, 1, 1);
  cudaGraphNode_t node = nullptr;
  ASSERT_CUDA(cudaGraphAddKernelNode(&node, graph, &last, 1, &add.parameters));
  cudaGraphExec_t exec = Instantiate();
  Launch(exec, 2);
  ASSERT_CUDA(cudaLibraryUnload(library));
  EXPECT_CUDA_ERROR(cudaGraphLaunch(exec, stream), cudaErrorInvalidDeviceFunction);
  EXPECT_EQ(Graphs(), 1);
}

TEST_F(GraphRepeatsTest, OthersStreamsTakeTurns) {
  std::uint32_t* const words = NewWords(1);
  AddChain(words, 3, 1);
  cudaGraphExec_t exec = Instantiate();
  Launch(exec, 2);
  cudaStream_t other = NewStream();
  Hold(stream);
  ASSERT_CUDA(cudaGraphLaunch(exec, stream));
  ASSERT_CUDA(cudaGraphLaunch(exec, other));
  EXPECT_CUDA_ERROR(cudaStreamQuery(other), cudaErrorNotReady);
  Let(stream);
  EXPECT_CUDA(cudaStreamSynchronize(other));
  EXPECT_EQ(Read(words, 1).front(), 12U);
}

TEST_F(GraphRepeatsTest, DestroyedUnderWayGoOn) {
  std::uint32_t* const words = NewWords(1);
  AddChain(words, 3, 1);
  cudaGraphExec_t exec = Instantiate();
  Launch(exec, 2);
  Hold(stream);
  ASSERT_CUDA(cudaGraphLaunch(exec, stream));
  ASSERT_CUDA(cudaGraphExecDestroy(exec));
  Let(stream);
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(Read(words, 1).front(), 9U);
}

}  // namespace
}  // namespace cuspan

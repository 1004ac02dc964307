// Executable graphs, and changes to them.
#include "tests/unit/interpose/loopback/graphs_fixture.h"

namespace cuspan {
namespace {

using GraphExecsTest = GraphsFixture;

TEST_F(GraphExecsTest, StayAsTheGraphWas) {
  std::uint32_t* const words = NewWords(1);
  cudaGraphNode_t add = AddNode(words, 1, 1);
  cudaGraphExec_t exec = Instantiate();
  AddKernel changed(Kernel("add"), words, 1, 100);
  ASSERT_CUDA(cudaGraphKernelNodeSetParams(add, &changed.parameters));
  AddNode(words, 1, 1000);
  ASSERT_CUDA(cudaGraphLaunch(exec, stream));
  EXPECT_EQ(Read(words, 1).front(), 1U);
  Run();
  EXPECT_EQ(Read(words, 1).front(), 1101U);
}

TEST_F(GraphExecsTest, NodesAreChangedFromTheNextLaunchOn) {
  std::uint32_t* const words = NewWords(2);
  cudaGraphNode_t set = SetNode(words, 5, 4, 1);
  cudaGraphNode_t add = AddNode(words, 1, 1, {set});
  cudaGraphNode_t copy = nullptr;
  ASSERT_CUDA(cudaGraphAddMemcpyNode1D(&copy, graph, &add, 1, words + 1, words, 4,
                                       cudaMemcpyDeviceToDevice));
  cudaGraphExec_t exec = Instantiate();
  Hold(stream);
  ASSERT_CUDA(cudaGraphLaunch(exec, stream));
  AddKernel changed(Kernel("add"), words, 1, 10);
  ASSERT_CUDA(cudaGraphExecKernelNodeSetParams(exec, add, &changed.parameters));
  Let(stream);
  EXPECT_EQ(Read(words, 2), (std::vector<std::uint32_t>{6, 6}));
  ASSERT_CUDA(cudaGraphLaunch(exec, stream));
  EXPECT_EQ(Read(words, 2), (std::vector<std::uint32_t>{15, 15}));
  const cudaMemsetParams seven{words, 0, 7, 4, 1, 1};
  ASSERT_CUDA(cudaGraphExecMemsetNodeSetParams(exec, set, &seven));
  std::uint32_t* const elsewhere = NewWords(1);
  ASSERT_CUDA(cudaGraphExecMemcpyNodeSetParams1D(exec, copy, elsewhere, words, 4,
                                                 cudaMemcpyDeviceToDevice));
  ASSERT_CUDA(cudaGraphLaunch(exec, stream));
  EXPECT_EQ(Read(words, 2), (std::vector<std::uint32_t>{17, 15}));
  EXPECT_EQ(Read(elsewhere, 1).front(), 17U);
}

// The kernel is unloaded, and no other kernel is launched instead.
TEST_F(GraphExecsTest, AKernelOfAnUnloadedLibraryIsNotLaunched) {
  cudaLibrary_t library = nullptr;
  ASSERT_CUDA(cudaLibraryLoadData(&library, ".version 8.0\n.target sm_80\n.address_size 64\n",
                                  nullptr, nullptr, 0, nullptr, nullptr, 0));
  cudaKernel_t kernel = nullptr;
  ASSERT_CUDA(cudaLibraryGetKernel(&kernel, library, "add"));
  std::uint32_t* const words = NewWords(1);
  AddKernel add(kernel, words, 1, 1);
  cudaGraphNode_t node = nullptr;
  ASSERT_CUDA(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &add.parameters));
  cudaGraphExec_t exec = Instantiate();
  ASSERT_CUDA(cudaGraphLaunch(exec, stream));
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  ASSERT_CUDA(cudaLibraryUnload(library));
  EXPECT_CUDA_ERROR(cudaGraphLaunch(exec, stream), cudaErrorInvalidDeviceFunction);
  EXPECT_EQ(Read(words, 1).front(), 1U);
}

TEST_F(GraphExecsTest, NodesOfOtherKindsCanNotBePutIn) {
  std::uint32_t* const words = NewWords(1);
  cudaGraphNode_t set = SetNode(words, 5, 4, 1);
  cudaGraphExec_t exec = Instantiate();
  cudaGraphNode_t later = AddNode(words, 1, 1);
  AddKernel kernel(Kernel("add"), words, 1, 1);
  EXPECT_CUDA_ERROR(cudaGraphExecKernelNodeSetParams(exec, set, &kernel.parameters),
                    cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaGraphExecKernelNodeSetParams(exec, later, &kernel.parameters),
                    cudaErrorInvalidValue);
}

TEST_F(GraphExecsTest, NodesAreLeftOutAndTakenInAgain) {
  std::uint32_t* const words = NewWords(1);
  cudaGraphNode_t add = AddNode(words, 1, 1);
  AddNode(words, 1, 10, {add});
  cudaGraphExec_t exec = Instantiate();
  unsigned enabled = 0;
  EXPECT_CUDA(cudaGraphNodeGetEnabled(exec, add, &enabled));
  EXPECT_EQ(enabled, 1U);
  ASSERT_CUDA(cudaGraphNodeSetEnabled(exec, add, 0));
  ASSERT_CUDA(cudaGraphLaunch(exec, stream));
  EXPECT_EQ(Read(words, 1).front(), 10U);
  ASSERT_CUDA(cudaGraphNodeSetEnabled(exec, add, 1));
  ASSERT_CUDA(cudaGraphLaunch(exec, stream));
  EXPECT_EQ(Read(words, 1).front(), 21U);
}

TEST_F(GraphExecsTest, LaunchesOfOneDoNotOverlap) {
  std::uint32_t* const words = NewWords(1);
  AddNode(words, 1, 1);
  cudaGraphExec_t exec = Instantiate();
  cudaStream_t other = NewStream();
  Hold(stream);
  ASSERT_CUDA(cudaGraphLaunch(exec, stream));
  ASSERT_CUDA(cudaGraphLaunch(exec, other));
  EXPECT_CUDA_ERROR(cudaStreamQuery(other), cudaErrorNotReady);
  Let(stream);
  EXPECT_CUDA(cudaStreamSynchronize(other));
  EXPECT_EQ(Read(words, 1).front(), 2U);
}

TEST_F(GraphExecsTest, DestroyedUnderWayGoOn) {
  std::uint32_t* const words = NewWords(1);
  AddNode(words, 1, 1, {AddNode(words, 1, 1)});
  cudaGraphExec_t exec = Instantiate();
  Hold(stream);
  ASSERT_CUDA(cudaGraphLaunch(exec, stream));
  ASSERT_CUDA(cudaGraphExecDestroy(exec));
  EXPECT_CUDA_ERROR(cudaStreamQuery(stream), cudaErrorNotReady);
  Let(stream);
  EXPECT_EQ(Read(words, 1).front(), 2U);
}

TEST_F(GraphExecsTest, AreLaunchedInTheOrderOfTheirStream) {
  std::uint32_t* const words = NewWords(1);
  AddNode(words, 1, 1);
  cudaGraphExec_t exec = Instantiate();
  ASSERT_CUDA(cudaMemsetAsync(words, 1, 4, stream));
  ASSERT_CUDA(cudaGraphLaunch(exec, stream));
  ASSERT_CUDA(cudaGraphLaunch(exec, stream));
  EXPECT_EQ(ReadWord(words, stream), 0x01010103U);
}

TEST_F(GraphExecsTest, TakeTheWorkOfAGraphThatIsAlike) {
  std::uint32_t* const words = NewWords(1);
  AddNode(words, 1, 1, {SetNode(words, 5, 4, 1)});
  cudaGraphExec_t exec = Instantiate();
  ASSERT_CUDA(cudaGraphDestroy(graph));
  ASSERT_CUDA(cudaGraphCreate(&graph, 0));
  AddNode(words, 1, 20, {SetNode(words, 300, 4, 1)});
  cudaGraphExecUpdateResultInfo info{};
  ASSERT_CUDA(cudaGraphExecUpdate(exec, graph, &info));
  EXPECT_EQ(info.result, cudaGraphExecUpdateSuccess);
  ASSERT_CUDA(cudaGraphLaunch(exec, stream));
  EXPECT_EQ(Read(words, 1).front(), 320U);
}

TEST_F(GraphExecsTest, DoNotTakeTheWorkOfAnother) {
  std::uint32_t* const words = NewWords(1);
  AddNode(words, 1, 1, {SetNode(words, 5, 4, 1)});
  cudaGraphExec_t exec = Instantiate();
  cudaGraphExecUpdateResultInfo info{};
  AddNode(words, 1, 1);
  EXPECT_CUDA_ERROR(cudaGraphExecUpdate(exec, graph, &info), cudaErrorGraphExecUpdateFailure);
  EXPECT_EQ(info.result, cudaGraphExecUpdateErrorTopologyChanged);
  ASSERT_CUDA(cudaGraphDestroy(graph));
  ASSERT_CUDA(cudaGraphCreate(&graph, 0));
  AddNode(words, 1, 1, {AddNode(words, 1, 1)});
  EXPECT_CUDA_ERROR(cudaGraphExecUpdate(exec, graph, &info), cudaErrorGraphExecUpdateFailure);
  EXPECT_EQ(info.result, cudaGraphExecUpdateErrorNodeTypeChanged);
  // The executable graph is unchanged.
  ASSERT_CUDA(cudaGraphLaunch(exec, stream));
  EXPECT_EQ(Read(words, 1).front(), 6U);
}

TEST_F(GraphExecsTest, ChildGraphsAreChanged) {
  std::uint32_t* const words = NewWords(1);
  cudaGraph_t inner = nullptr;
  ASSERT_CUDA(cudaGraphCreate(&inner, 0));
  std::swap(graph, inner);
  cudaGraphNode_t add = AddNode(words, 1, 3);
  std::swap(graph, inner);
  cudaGraphNode_t child = nullptr;
  ASSERT_CUDA(cudaGraphAddChildGraphNode(&child, graph, nullptr, 0, inner));
  cudaGraphExec_t exec = Instantiate();
  AddKernel changed(Kernel("add"), words, 1, 50);
  ASSERT_CUDA(cudaGraphKernelNodeSetParams(add, &changed.parameters));
  ASSERT_CUDA(cudaGraphExecChildGraphNodeSetParams(exec, child, inner));
  ASSERT_CUDA(cudaGraphLaunch(exec, stream));
  EXPECT_EQ(Read(words, 1).front(), 50U);
  EXPECT_CUDA(cudaGraphDestroy(inner));
}

TEST_F(GraphExecsTest, KernelsOfTwoDevicesAreInOne) {
  std::uint32_t* const first = NewWords(1);
  cudaGraphNode_t add = AddNode(first, 1, 1);
  ASSERT_CUDA(cudaSetDevice(1));
  std::uint32_t* const second = NewWords(1);
  cudaGraphNode_t other = AddNode(second, 1, 2, {add});
  ASSERT_CUDA(cudaSetDevice(0));
  AddNode(first, 1, 4, {other});
  Run();
  Run();
  EXPECT_EQ(Read(first, 1).front(), 10U);
  ASSERT_CUDA(cudaSetDevice(1));
  EXPECT_EQ(Read(second, 1).front(), 4U);
}

// Nodes of child graphs, as far as the program has handles of them, are changed in the executable
// graph only.
TEST_F(GraphExecsTest, NodesOfGraphsInsideAreChanged) {
  std::uint32_t* const words = NewWords(2);
  cudaGraph_t copied = nullptr;
  cudaGraph_t moved = nullptr;
  ASSERT_CUDA(cudaGraphCreate(&copied, 0));
  ASSERT_CUDA(cudaGraphCreate(&moved, 0));
  const auto add_set = [](cudaGraph_t to, void* word) {
    const cudaMemsetParams set{word, 0, 1, 4, 1, 1};
    cudaGraphNode_t node = nullptr;
    EXPECT_CUDA(cudaGraphAddMemsetNode(&node, to, nullptr, 0, &set));
    return node;
  };
  const cudaGraphNode_t before = add_set(copied, words);
  const cudaGraphNode_t in_moved = add_set(moved, words + 1);
  cudaGraphNode_t node = nullptr;
  cudaGraph_t inside = nullptr;
  cudaGraphNode_t in_copy = nullptr;
  std::size_t one = 1;
  ASSERT_CUDA(cudaGraphAddChildGraphNode(&node, graph, nullptr, 0, copied));
  ASSERT_CUDA(cudaGraphChildGraphNodeGetGraph(node, &inside));
  ASSERT_CUDA(cudaGraphGetNodes(inside, &in_copy, &one));
  cudaGraphNodeParams parameters{};
  parameters.type = cudaGraphNodeTypeGraph;
  parameters.graph.graph = moved;
  parameters.graph.ownership = cudaGraphChildGraphOwnershipMove;
  ASSERT_CUDA(cudaGraphAddNode(&node, graph, nullptr, nullptr, 0, &parameters));
  ASSERT_CUDA(cudaGraphChildGraphNodeGetGraph(node, &inside));
  EXPECT_EQ(inside, moved);
  cudaGraphExec_t exec = Instantiate();
  const cudaMemsetParams other{words, 0, 8, 4, 1, 1};
  const cudaMemsetParams another{words + 1, 0, 9, 4, 1, 1};
  EXPECT_CUDA_ERROR(cudaGraphExecMemsetNodeSetParams(exec, before, &other), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaGraphExecMemsetNodeSetParams(exec, in_copy, &other));
  EXPECT_CUDA(cudaGraphExecMemsetNodeSetParams(exec, in_moved, &another));
  ASSERT_CUDA(cudaGraphLaunch(exec, stream));
  EXPECT_EQ(Read(words, 2), (std::vector<std::uint32_t>{8, 9}));
  EXPECT_CUDA(cudaGraphExecDestroy(exec));
  EXPECT_CUDA(cudaGraphDestroy(copied));
}

TEST_F(GraphExecsTest, InstantiationTellsWhyItFailed) {
  cudaGraphNode_t first = EmptyNode();
  cudaGraphNode_t second = EmptyNode({first});
  cudaGraphExec_t exec = nullptr;
  cudaGraphInstantiateParams parameters{};
  const auto instantiate = [&](cudaGraph_t of, unsigned long long flags) {
    parameters = {};
    parameters.flags = flags;
    return cudaGraphInstantiateWithParams(&exec, of, &parameters);
  };
  EXPECT_CUDA(instantiate(graph, 0));
  EXPECT_EQ(parameters.result_out, cudaGraphInstantiateSuccess);
  EXPECT_CUDA(cudaGraphExecDestroy(exec));
  EXPECT_CUDA_ERROR(instantiate(graph, 16), cudaErrorInvalidValue);
  EXPECT_EQ(parameters.result_out, cudaGraphInstantiateError);
  EXPECT_CUDA_ERROR(instantiate(nullptr, 0), cudaErrorInvalidValue);
  EXPECT_EQ(parameters.result_out, cudaGraphInstantiateError);
  ASSERT_CUDA(cudaGraphAddDependencies(graph, &second, &first, nullptr, 1));
  EXPECT_CUDA_ERROR(instantiate(graph, 0), cudaErrorInvalidValue);
  EXPECT_EQ(parameters.result_out, cudaGraphInstantiateInvalidStructure);
}

TEST_F(GraphExecsTest, AGraphInsideIsNoOthers) {
  cudaGraph_t moved = nullptr;
  cudaGraph_t other = nullptr;
  cudaGraphNode_t node = nullptr;
  cudaGraphExec_t exec = nullptr;
  ASSERT_CUDA(cudaGraphCreate(&moved, 0));
  ASSERT_CUDA(cudaGraphCreate(&other, 0));
  cudaGraphNodeParams parameters{};
  parameters.type = cudaGraphNodeTypeGraph;
  parameters.graph.graph = moved;
  parameters.graph.ownership = cudaGraphChildGraphOwnershipMove;
  // A graph cannot be moved into itself or into its own child graphs.
  EXPECT_CUDA_ERROR(cudaGraphAddNode(&node, moved, nullptr, nullptr, 0, &parameters),
                    cudaErrorInvalidValue);
  ASSERT_CUDA(cudaGraphAddNode(&node, graph, nullptr, nullptr, 0, &parameters));
  EXPECT_CUDA_ERROR(cudaGraphAddNode(&node, other, nullptr, nullptr, 0, &parameters),
                    cudaErrorNotSupported);
  EXPECT_CUDA_ERROR(cudaGraphAddChildGraphNode(&node, other, nullptr, 0, moved),
                    cudaErrorNotSupported);
  EXPECT_CUDA_ERROR(cudaGraphInstantiate(&exec, moved, 0), cudaErrorNotSupported);
  EXPECT_CUDA_ERROR(cudaGraphDestroy(moved), cudaErrorInvalidValue);
  parameters.graph.graph = graph;
  EXPECT_CUDA_ERROR(cudaGraphAddNode(&node, moved, nullptr, nullptr, 0, &parameters),
                    cudaErrorInvalidValue);
  EXPECT_CUDA(cudaGraphDestroy(other));
}

TEST_F(GraphExecsTest, ALaunchIsCapturedAsAChild) {
  std::uint32_t* const words = NewWords(1);
  AddNode(words, 1, 1);
  cudaGraphExec_t exec = Instantiate();
  cudaGraph_t captured = nullptr;
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  ASSERT_CUDA(cudaGraphLaunch(exec, stream));
  ASSERT_CUDA(cudaGraphLaunch(exec, stream));
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  EXPECT_EQ(Read(words, 1).front(), 0U);
  std::swap(graph, captured);
  Run();
  EXPECT_EQ(Read(words, 1).front(), 2U);
  EXPECT_CUDA(cudaGraphDestroy(captured));
}

}  // namespace
}  // namespace cuspan

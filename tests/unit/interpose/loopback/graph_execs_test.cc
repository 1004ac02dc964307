// What is made of graphs to launch them, and what is changed in it.
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

// The kernel is not there any more, and nothing of another one takes its place.
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
  // It is what it was.
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

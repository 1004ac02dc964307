// Memory allocated and freed by graphs.
#include "tests/unit/interpose/loopback/graphs_fixture.h"

namespace cuspan {
namespace {

class GraphMemoryTest : public GraphsFixture {
 protected:
  static cudaMemAllocNodeParams Parameters(std::size_t words) {
    cudaMemAllocNodeParams parameters{};
    parameters.poolProps.allocType = cudaMemAllocationTypePinned;
    parameters.poolProps.location = {cudaMemLocationTypeDevice, 0};
    parameters.bytesize = words * sizeof(std::uint32_t);
    return parameters;
  }
  cudaGraphNode_t AllocateNode(std::size_t words, std::uint32_t** memory,
                               const Nodes& before = {}) const {
    cudaMemAllocNodeParams parameters = Parameters(words);
    cudaGraphNode_t node = nullptr;
    EXPECT_CUDA(cudaGraphAddMemAllocNode(&node, graph, before.data(), before.size(), &parameters));
    *memory = static_cast<std::uint32_t*>(parameters.dptr);
    return node;
  }
  cudaGraphNode_t FreeNode(void* memory, const Nodes& before) const {
    cudaGraphNode_t node = nullptr;
    EXPECT_CUDA(cudaGraphAddMemFreeNode(&node, graph, before.data(), before.size(), memory));
    return node;
  }
};

TEST_F(GraphMemoryTest, IsUsedBetweenItsNodes) {
  std::uint32_t* const result = NewWords(100);
  std::uint32_t* memory = nullptr;
  cudaGraphNode_t allocate = AllocateNode(100, &memory);
  ASSERT_NE(memory, nullptr);
  cudaGraphNode_t add = AddNode(memory, 100, 2, {SetNode(memory, 40, 4, 100, {allocate})});
  cudaGraphNode_t copy = nullptr;
  ASSERT_CUDA(cudaGraphAddMemcpyNode1D(&copy, graph, &add, 1, result, memory, 400,
                                       cudaMemcpyDeviceToDevice));
  FreeNode(memory, {copy});
  cudaGraphExec_t exec = Instantiate();
  for (int launch = 0; launch < 3; ++launch) {
    ASSERT_CUDA(cudaMemset(result, 0, 400));
    ASSERT_CUDA(cudaDeviceSynchronize());
    ASSERT_CUDA(cudaGraphLaunch(exec, stream));
    EXPECT_EQ(Read(result, 100), std::vector<std::uint32_t>(100, 42));
  }
  EXPECT_CUDA(cudaGraphExecDestroy(exec));
}

TEST_F(GraphMemoryTest, OutlivesTheLaunchThatAllocatesIt) {
  std::uint32_t* memory = nullptr;
  cudaGraphNode_t allocate = AllocateNode(10, &memory);
  SetNode(memory, 7, 4, 10, {allocate});
  cudaGraphExec_t exec = Instantiate();
  for (int launch = 0; launch < 2; ++launch) {
    ASSERT_CUDA(cudaGraphLaunch(exec, stream));
    ASSERT_CUDA(Add(memory, 10, 1, stream));
    EXPECT_EQ(Read(memory, 10), std::vector<std::uint32_t>(10, 8));
    ASSERT_CUDA(cudaFreeAsync(memory, stream));
  }
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_CUDA(cudaGraphExecDestroy(exec));
}

TEST_F(GraphMemoryTest, IsNotAllocatedTwice) {
  std::uint32_t* memory = nullptr;
  AllocateNode(10, &memory);
  cudaGraphExec_t exec = Instantiate();
  ASSERT_CUDA(cudaGraphLaunch(exec, stream));
  EXPECT_CUDA_ERROR(cudaGraphLaunch(exec, stream), cudaErrorInvalidValue);
  ASSERT_CUDA(cudaFreeAsync(memory, stream));
  EXPECT_CUDA(cudaGraphLaunch(exec, stream));
  EXPECT_CUDA(cudaFree(memory));
  EXPECT_CUDA(cudaGraphExecDestroy(exec));
}

TEST_F(GraphMemoryTest, IsTheProgramsUntilItIsFreedAlsoWithoutTheGraph) {
  std::uint64_t before = 0;
  std::uint64_t used = 0;
  ASSERT_CUDA(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &before));
  std::uint32_t* memory = nullptr;
  cudaGraphNode_t allocate = AllocateNode(10, &memory);
  SetNode(memory, 7, 4, 10, {allocate});
  EXPECT_CUDA_ERROR(cudaFreeAsync(memory, stream), cudaErrorInvalidValue);  // Not launched yet.
  cudaGraphExec_t exec = Instantiate();
  ASSERT_CUDA(cudaGraphLaunch(exec, stream));
  ASSERT_CUDA(cudaGraphExecDestroy(exec));
  ASSERT_CUDA(cudaGraphDestroy(graph));
  ASSERT_CUDA(cudaGraphCreate(&graph, 0));
  ASSERT_CUDA(Add(memory, 10, 1, stream));
  EXPECT_EQ(Read(memory, 10), std::vector<std::uint32_t>(10, 8));
  EXPECT_CUDA(cudaFreeAsync(memory, stream));
  EXPECT_CUDA_ERROR(cudaFreeAsync(memory, stream), cudaErrorInvalidValue);
  ASSERT_CUDA(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &used));
  EXPECT_EQ(used, before);
}

// Programs free it without checking if it is allocated (Warp does).
TEST_F(GraphMemoryTest, IsNoOtherMemorySoonWhenTheGraphIsGone) {
  std::uint32_t* memory = nullptr;
  AllocateNode(1000, &memory);
  ASSERT_CUDA(cudaGraphDestroy(graph));
  ASSERT_CUDA(cudaGraphCreate(&graph, 0));
  void* others[8]{};
  for (int i = 0; i < 8; ++i) {
    ASSERT_CUDA(i % 2 == 0 ? cudaMallocAsync(&others[i], 4000, stream)
                           : cudaMalloc(&others[i], 4000));
    EXPECT_NE(others[i], memory);
  }
  EXPECT_CUDA_ERROR(cudaFreeAsync(memory, stream), cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaFree(memory), cudaErrorInvalidValue);
  cudaGraphNode_t node = nullptr;
  EXPECT_CUDA_ERROR(cudaGraphAddMemFreeNode(&node, graph, nullptr, 0, memory),
                    cudaErrorInvalidValue);
  for (void* const other : others) EXPECT_CUDA(cudaFree(other));
  EXPECT_CUDA(cudaDeviceGraphMemTrim(0));
  EXPECT_CUDA_ERROR(cudaFree(memory), cudaErrorInvalidValue);
}

TEST_F(GraphMemoryTest, BelongsToOneExecAtATime) {
  std::uint32_t* memory = nullptr;
  AllocateNode(10, &memory);
  cudaGraphExec_t exec = Instantiate();
  cudaGraphExec_t second = nullptr;
  cudaGraph_t clone = nullptr;
  EXPECT_CUDA_ERROR(cudaGraphInstantiate(&second, graph, 0), cudaErrorNotSupported);
  EXPECT_CUDA_ERROR(cudaGraphClone(&clone, graph), cudaErrorNotSupported);
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  EXPECT_CUDA_ERROR(cudaGraphLaunch(exec, stream), cudaErrorStreamCaptureUnsupported);
  EXPECT_CUDA_ERROR(cudaStreamEndCapture(stream, &clone), cudaErrorStreamCaptureInvalidated);
  EXPECT_CUDA(cudaGraphExecDestroy(exec));
  EXPECT_CUDA(cudaGraphExecDestroy(Instantiate()));
}

TEST_F(GraphMemoryTest, IsInAGraphThatWasMovedIntoAnother) {
  std::uint32_t* memory = nullptr;
  AllocateNode(10, &memory);
  cudaGraph_t outer = nullptr;
  cudaGraphNode_t node = nullptr;
  ASSERT_CUDA(cudaGraphCreate(&outer, 0));
  EXPECT_CUDA_ERROR(cudaGraphAddChildGraphNode(&node, outer, nullptr, 0, graph),
                    cudaErrorNotSupported);
  cudaGraphNodeParams parameters{};
  parameters.type = cudaGraphNodeTypeGraph;
  parameters.graph.graph = graph;
  parameters.graph.ownership = cudaGraphChildGraphOwnershipMove;
  ASSERT_CUDA(cudaGraphAddNode(&node, outer, nullptr, nullptr, 0, &parameters));
  cudaMemAllocNodeParams more = Parameters(10);
  EXPECT_CUDA_ERROR(cudaGraphAddMemAllocNode(&node, graph, nullptr, 0, &more),
                    cudaErrorNotSupported);
  graph = outer;
  cudaGraphExec_t exec = Instantiate();
  ASSERT_CUDA(cudaGraphLaunch(exec, stream));
  ASSERT_CUDA(cudaMemsetAsync(memory, 3, 40, stream));
  EXPECT_EQ(Read(memory, 10), std::vector<std::uint32_t>(10, 0x03030303));
  EXPECT_CUDA(cudaFree(memory));
  EXPECT_CUDA(cudaGraphExecDestroy(exec));
}

TEST_F(GraphMemoryTest, IsFreedByAnotherGraphOnceForEachLaunch) {
  std::uint32_t* memory = nullptr;
  AllocateNode(10, &memory);
  cudaGraphExec_t allocates = Instantiate();
  cudaGraph_t freeing = nullptr;
  cudaGraphExec_t frees = nullptr;
  cudaGraphNode_t node = nullptr;
  ASSERT_CUDA(cudaGraphCreate(&freeing, 0));
  ASSERT_CUDA(cudaGraphAddMemFreeNode(&node, freeing, nullptr, 0, memory));
  ASSERT_CUDA(cudaGraphInstantiate(&frees, freeing, 0));
  for (int launch = 0; launch < 2; ++launch) {
    EXPECT_CUDA(cudaGraphLaunch(allocates, stream));
    EXPECT_CUDA(cudaGraphLaunch(frees, stream));
  }
  EXPECT_CUDA_ERROR(cudaGraphLaunch(frees, stream), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaGraphExecDestroy(frees));
  EXPECT_CUDA(cudaGraphDestroy(freeing));
  EXPECT_CUDA(cudaGraphExecDestroy(allocates));
}

TEST_F(GraphMemoryTest, IsFreedByTheNextLaunchWhenAskedTo) {
  std::uint32_t* memory = nullptr;
  cudaGraphNode_t allocate = AllocateNode(10, &memory);
  SetNode(memory, 7, 4, 10, {allocate});
  cudaGraphExec_t exec = Instantiate(cudaGraphInstantiateFlagAutoFreeOnLaunch);
  EXPECT_CUDA(cudaGraphLaunch(exec, stream));
  EXPECT_CUDA(cudaGraphLaunch(exec, stream));
  EXPECT_EQ(Read(memory, 10), std::vector<std::uint32_t>(10, 7));
  EXPECT_CUDA(cudaFree(memory));
  EXPECT_CUDA(cudaGraphExecDestroy(exec));
}

TEST_F(GraphMemoryTest, IsCapturedFromStreams) {
  std::uint32_t* const result = NewWords(10);
  void* memory = nullptr;
  cudaGraph_t captured = nullptr;
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  ASSERT_CUDA(cudaMallocAsync(&memory, 40, stream));
  ASSERT_CUDA(cudaMemsetAsync(memory, 1, 40, stream));
  ASSERT_CUDA(cudaMemcpyAsync(result, memory, 40, cudaMemcpyDeviceToDevice, stream));
  ASSERT_CUDA(cudaFreeAsync(memory, stream));
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  std::swap(graph, captured);
  Run();
  EXPECT_EQ(Read(result, 10), std::vector<std::uint32_t>(10, 0x01010101));
  EXPECT_CUDA(cudaGraphDestroy(captured));
}

TEST_F(GraphMemoryTest, IsFreedOnce) {
  std::uint32_t* memory = nullptr;
  cudaGraphNode_t allocate = AllocateNode(10, &memory);
  cudaGraphNode_t free = FreeNode(memory, {allocate});
  cudaGraphNode_t again = nullptr;
  EXPECT_CUDA_ERROR(cudaGraphAddMemFreeNode(&again, graph, &free, 1, memory),
                    cudaErrorInvalidValue);
  std::uint32_t* const words = NewWords(1);
  EXPECT_CUDA_ERROR(cudaGraphAddMemFreeNode(&again, graph, &free, 1, words), cudaErrorInvalidValue);
}

TEST_F(GraphMemoryTest, GraphsWithItKeepTheirNodesAndEdges) {
  std::uint32_t* memory = nullptr;
  cudaGraphNode_t allocate = AllocateNode(10, &memory);
  cudaGraphNode_t free = FreeNode(memory, {allocate});
  EXPECT_CUDA_ERROR(cudaGraphDestroyNode(free), cudaErrorNotSupported);
  EXPECT_CUDA_ERROR(cudaGraphRemoveDependencies(graph, &allocate, &free, nullptr, 1),
                    cudaErrorNotSupported);
}

TEST_F(GraphMemoryTest, TellsHowMuchThereIs) {
  std::uint64_t none = 0;
  std::uint64_t before = 0;
  std::uint64_t used = 99;
  ASSERT_CUDA(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &before));
  ASSERT_CUDA(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, &none));
  ASSERT_CUDA(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, &used));
  EXPECT_EQ(used, before);
  std::uint32_t* memory = nullptr;
  cudaGraphNode_t allocate = AllocateNode(1 << 18, &memory);
  FreeNode(memory, {allocate});
  Run();
  ASSERT_CUDA(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, &used));
  EXPECT_GE(used, before + (1U << 20));
  EXPECT_CUDA(cudaDeviceGraphMemTrim(0));
  EXPECT_CUDA_ERROR(cudaDeviceGetGraphMemAttribute(9, cudaGraphMemAttrUsedMemHigh, &used),
                    cudaErrorInvalidDevice);
}

}  // namespace
}  // namespace cuspan

// Graphs built node by node.
#include "tests/unit/interpose/loopback/graphs_fixture.h"

namespace cuspan {
namespace {

using GraphsTest = GraphsFixture;

TEST_F(GraphsTest, NodesRunInTheOrderOfTheirEdges) {
  std::uint32_t* const words = NewWords(2);
  // The copy is added first and runs last.
  cudaGraphNode_t copy = nullptr;
  ASSERT_CUDA(cudaGraphAddMemcpyNode1D(&copy, graph, nullptr, 0, words + 1, words, 4,
                                       cudaMemcpyDeviceToDevice));
  cudaGraphNode_t add = AddNode(words, 1, 2, {SetNode(words, 5, 4, 1)});
  ASSERT_CUDA(cudaGraphAddDependencies(graph, &add, &copy, nullptr, 1));
  Run();
  EXPECT_EQ(Read(words, 2), (std::vector<std::uint32_t>{7, 7}));
}

TEST_F(GraphsTest, ElementsOfAllSizesAreSet) {
  std::uint32_t* const words = NewWords(12);
  SetNode(words, 0xab, 1, 16);
  SetNode(words + 4, 0x1234, 2, 8);
  SetNode(words + 8, 0x12345678, 4, 4);
  Run();
  std::vector<std::uint32_t> expected(4, 0xabababab);
  expected.resize(8, 0x12341234);
  expected.resize(12, 0x12345678);
  EXPECT_EQ(Read(words, 12), expected);
}

TEST_F(GraphsTest, RowsOfElementsAreSet) {
  std::uint32_t* const words = NewWords(12);
  cudaMemsetParams parameters{};
  parameters.dst = words;
  parameters.pitch = 16;
  parameters.value = 9;
  parameters.elementSize = 4;
  parameters.width = 3;
  parameters.height = 3;
  cudaGraphNode_t node = nullptr;
  ASSERT_CUDA(cudaGraphAddMemsetNode(&node, graph, nullptr, 0, &parameters));
  Run();
  const std::vector<std::uint32_t> after = Read(words, 12);
  for (std::size_t i = 0; i < 12; ++i) EXPECT_EQ(after[i], i % 4 < 3 ? 9U : 0U) << i;
}

TEST_F(GraphsTest, HostNodesAreCalledInOrder) {
  std::uint32_t* const words = NewWords(1);
  void* memory = nullptr;
  ASSERT_CUDA(cudaMallocHost(&memory, 8));
  auto* const here = static_cast<std::uint32_t*>(memory);
  here[0] = here[1] = 0;
  cudaGraphNode_t add = AddNode(words, 1, 4);
  cudaGraphNode_t copy = nullptr;
  ASSERT_CUDA(
      cudaGraphAddMemcpyNode1D(&copy, graph, &add, 1, here, words, 4, cudaMemcpyDeviceToHost));
  cudaHostNodeParams look{};
  look.fn = [](void* data) {
    auto* const two = static_cast<std::uint32_t*>(data);
    two[1] = two[0] + 100;
  };
  look.userData = here;
  cudaGraphNode_t host = nullptr;
  ASSERT_CUDA(cudaGraphAddHostNode(&host, graph, &copy, 1, &look));
  Run();
  EXPECT_EQ(here[1], 104U);
  EXPECT_CUDA(cudaFreeHost(memory));
}

TEST_F(GraphsTest, EventNodesRecordAndWait) {
  std::uint32_t* const words = NewWords(1);
  cudaEvent_t before = NewEvent();
  cudaEvent_t after = NewEvent();
  cudaStream_t other = NewStream();
  cudaGraphNode_t wait = nullptr;
  cudaGraphNode_t record = nullptr;
  ASSERT_CUDA(cudaGraphAddEventWaitNode(&wait, graph, nullptr, 0, before));
  cudaGraphNode_t add = AddNode(words, 1, 1, {wait});
  ASSERT_CUDA(cudaGraphAddEventRecordNode(&record, graph, &add, 1, after));
  cudaGraphExec_t exec = Instantiate();
  Hold(other);
  ASSERT_CUDA(cudaMemsetAsync(words, 1, 4, other));
  ASSERT_CUDA(cudaEventRecord(before, other));
  ASSERT_CUDA(cudaGraphLaunch(exec, stream));
  EXPECT_CUDA_ERROR(cudaEventQuery(after), cudaErrorNotReady);
  Let(other);
  EXPECT_CUDA(cudaEventSynchronize(after));
  EXPECT_EQ(Read(words, 1).front(), 0x01010102U);
}

TEST_F(GraphsTest, ChildGraphsAreCopies) {
  std::uint32_t* const words = NewWords(1);
  cudaGraph_t inner = nullptr;
  ASSERT_CUDA(cudaGraphCreate(&inner, 0));
  std::swap(graph, inner);
  AddNode(words, 1, 3);
  std::swap(graph, inner);
  cudaGraphNode_t first = nullptr;
  cudaGraphNode_t second = nullptr;
  ASSERT_CUDA(cudaGraphAddChildGraphNode(&first, graph, nullptr, 0, inner));
  ASSERT_CUDA(cudaGraphAddChildGraphNode(&second, graph, &first, 1, inner));
  // Later changes of the original have no effect.
  std::swap(graph, inner);
  AddNode(words, 1, 1000);
  std::swap(graph, inner);
  ASSERT_CUDA(cudaGraphDestroy(inner));
  cudaGraph_t child = nullptr;
  ASSERT_CUDA(cudaGraphChildGraphNodeGetGraph(first, &child));
  std::size_t count = 0;
  EXPECT_CUDA(cudaGraphGetNodes(child, nullptr, &count));
  EXPECT_EQ(count, 1U);
  Run();
  EXPECT_EQ(Read(words, 1).front(), 6U);
}

TEST_F(GraphsTest, ClonesAreGraphsOfTheirOwn) {
  std::uint32_t* const words = NewWords(1);
  cudaGraphNode_t set = SetNode(words, 5, 4, 1);
  cudaGraphNode_t add = AddNode(words, 1, 1, {set});
  cudaGraph_t clone = nullptr;
  cudaGraphNode_t found = nullptr;
  ASSERT_CUDA(cudaGraphClone(&clone, graph));
  ASSERT_CUDA(cudaGraphNodeFindInClone(&found, add, clone));
  EXPECT_NE(found, add);
  ASSERT_CUDA(cudaGraphDestroyNode(found));
  EXPECT_CUDA_ERROR(cudaGraphNodeFindInClone(&found, add, clone), cudaErrorInvalidValue);
  std::size_t count = 0;
  EXPECT_CUDA(cudaGraphGetNodes(graph, nullptr, &count));
  EXPECT_EQ(count, 2U);
  std::swap(graph, clone);
  Run();
  EXPECT_EQ(Read(words, 1).front(), 5U);
  std::swap(graph, clone);
  Run();
  EXPECT_EQ(Read(words, 1).front(), 6U);
  EXPECT_CUDA(cudaGraphDestroy(clone));
}

TEST_F(GraphsTest, TellTheirNodesAndEdges) {
  cudaGraphNode_t first = EmptyNode();
  cudaGraphNode_t second = EmptyNode();
  cudaGraphNode_t third = EmptyNode({first, second});
  cudaGraphNode_t nodes[4] = {};
  std::size_t count = 4;
  EXPECT_CUDA(cudaGraphGetNodes(graph, nodes, &count));
  EXPECT_EQ(count, 3U);
  EXPECT_THAT(nodes, ::testing::UnorderedElementsAre(first, second, third, nullptr));
  count = 4;
  EXPECT_CUDA(cudaGraphGetRootNodes(graph, nodes, &count));
  EXPECT_EQ(count, 2U);
  count = 4;
  EXPECT_CUDA(cudaGraphNodeGetDependencies(third, nodes, nullptr, &count));
  EXPECT_EQ(count, 2U);
  count = 4;
  EXPECT_CUDA(cudaGraphNodeGetDependentNodes(first, nodes, nullptr, &count));
  ASSERT_EQ(count, 1U);
  EXPECT_EQ(nodes[0], third);
  ASSERT_CUDA(cudaGraphRemoveDependencies(graph, &first, &third, nullptr, 1));
  EXPECT_CUDA(cudaGraphNodeGetDependencies(third, nullptr, nullptr, &count));
  EXPECT_EQ(count, 1U);
  ASSERT_CUDA(cudaGraphDestroyNode(second));
  EXPECT_CUDA(cudaGraphGetRootNodes(graph, nullptr, &count));
  EXPECT_EQ(count, 2U);
}

// A list needs an array with enough elements, or null. Edge data needs the arrays of nodes beside
// it.
TEST_F(GraphsTest, ArraysWithoutRoomAreRefused) {
  cudaGraphNode_t first = EmptyNode();
  cudaGraphNode_t second = EmptyNode({first});
  cudaGraphNode_t nodes[2] = {};
  cudaGraphNode_t others[2] = {};
  cudaGraphEdgeData edges[2] = {};
  std::size_t none = 0;
  EXPECT_CUDA_ERROR(cudaGraphGetNodes(graph, nodes, &none), cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaGraphGetRootNodes(graph, nodes, &none), cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaGraphGetEdges(graph, nodes, others, edges, &none), cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaGraphGetEdges(graph, nodes, others, nullptr, &none), cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaGraphNodeGetDependencies(second, nodes, edges, &none),
                    cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaGraphNodeGetDependentNodes(first, nodes, nullptr, &none),
                    cudaErrorInvalidValue);
  EXPECT_EQ(none, 0U);
  std::size_t room = 2;
  EXPECT_CUDA_ERROR(cudaGraphGetEdges(graph, nullptr, nullptr, edges, &room),
                    cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaGraphNodeGetDependencies(second, nullptr, edges, &room),
                    cudaErrorInvalidValue);
  EXPECT_EQ(room, 2U);
  EXPECT_CUDA(cudaGraphGetEdges(graph, nodes, others, edges, &room));
  EXPECT_EQ(room, 1U);
}

TEST_F(GraphsTest, NodesTellWhatTheyDo) {
  std::uint32_t* const words = NewWords(1);
  cudaGraphNodeType type{};
  EXPECT_CUDA(cudaGraphNodeGetType(AddNode(words, 1, 1), &type));
  EXPECT_EQ(type, cudaGraphNodeTypeKernel);
  cudaGraphNode_t set = SetNode(words, 77, 4, 1);
  EXPECT_CUDA(cudaGraphNodeGetType(set, &type));
  EXPECT_EQ(type, cudaGraphNodeTypeMemset);
  cudaMemsetParams parameters{};
  EXPECT_CUDA(cudaGraphMemsetNodeGetParams(set, &parameters));
  EXPECT_EQ(parameters.dst, words);
  EXPECT_EQ(parameters.value, 77U);
  EXPECT_CUDA(cudaGraphNodeGetType(EmptyNode(), &type));
  EXPECT_EQ(type, cudaGraphNodeTypeEmpty);
}

TEST_F(GraphsTest, CyclesCanNotBeInstantiated) {
  cudaGraphNode_t first = EmptyNode();
  cudaGraphNode_t second = EmptyNode({first});
  cudaGraphExec_t exec = nullptr;
  // CUDA may refuse the edge or the graph.
  if (cudaGraphAddDependencies(graph, &second, &first, nullptr, 1) == cudaSuccess) {
    EXPECT_NE(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  }
}

TEST_F(GraphsTest, WrongHandlesAreRefused) {
  cudaGraph_t other = nullptr;
  cudaGraphNode_t node = nullptr;
  cudaGraphNode_t mine = EmptyNode();
  ASSERT_CUDA(cudaGraphCreate(&other, 0));
  EXPECT_CUDA_ERROR(cudaGraphAddEmptyNode(&node, other, &mine, 1), cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaGraphAddDependencies(graph, &mine, &mine, nullptr, 1),
                    cudaErrorInvalidValue);
  ASSERT_CUDA(cudaGraphDestroy(other));
  EXPECT_CUDA_ERROR(cudaGraphDestroy(other), cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaGraphAddEmptyNode(&node, other, nullptr, 0), cudaErrorInvalidValue);
  cudaGraphExec_t exec = Instantiate();
  ASSERT_CUDA(cudaGraphExecDestroy(exec));
  EXPECT_CUDA_ERROR(cudaGraphExecDestroy(exec), cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaGraphLaunch(exec, stream), cudaErrorInvalidValue);
}

TEST_F(GraphsTest, WrongParametersAreRefused) {
  std::uint32_t* const words = NewWords(1);
  cudaGraphNode_t node = nullptr;
  cudaMemsetParams set{};
  set.dst = words;
  set.elementSize = 3;
  set.width = set.height = 1;
  EXPECT_CUDA_ERROR(cudaGraphAddMemsetNode(&node, graph, nullptr, 0, &set), cudaErrorInvalidValue);
  cudaKernelNodeParams kernel{};
  EXPECT_NE(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &kernel), cudaSuccess);
  cudaHostNodeParams host{};
  EXPECT_CUDA_ERROR(cudaGraphAddHostNode(&node, graph, nullptr, 0, &host), cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(
      cudaGraphAddMemcpyNode1D(&node, graph, nullptr, 0, words, words, 8, cudaMemcpyDeviceToDevice),
      cudaErrorInvalidValue);
}

}  // namespace
}  // namespace cuspan

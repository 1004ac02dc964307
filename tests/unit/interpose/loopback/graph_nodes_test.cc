// Parameters returned for nodes of graphs, and the two forms of kernel arguments.
#include <cuda.h>

#include "tests/unit/interpose/loopback/graphs_fixture.h"

// Declared in CUDA 13 releases after this header.
extern "C" {
cudaError_t cudaGraphNodeGetParams(cudaGraphNode_t node, cudaGraphNodeParams* parameters);
cudaError_t cudaGraphGetId(cudaGraph_t graph, unsigned* id);
cudaError_t cudaGraphExecGetId(cudaGraphExec_t exec, unsigned* id);
cudaError_t cudaGraphNodeGetLocalId(cudaGraphNode_t node, unsigned* id);
cudaError_t cudaGraphNodeGetToolsId(cudaGraphNode_t node, unsigned long long* id);
cudaError_t cudaGraphNodeGetContainingGraph(cudaGraphNode_t node, cudaGraph_t* graph);
}

namespace cuspan {
namespace {

class GraphNodesTest : public GraphsFixture {
 protected:
  static cudaGraphNodeParams ParametersOf(cudaGraphNode_t node) {
    cudaGraphNodeParams parameters = {};
    EXPECT_CUDA(cudaGraphNodeGetParams(node, &parameters));
    return parameters;
  }
};

TEST_F(GraphNodesTest, KernelsTakeTheirArgumentsFromABuffer) {
  std::uint32_t* const words = NewWords(2);
  struct {
    std::uint32_t* words;
    std::uint32_t count;
    std::uint32_t value;
  } arguments{words, 2, 5};
  std::size_t bytes = sizeof arguments;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &arguments, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                   CU_LAUNCH_PARAM_END};
  cudaKernelNodeParams parameters{};
  parameters.func = const_cast<void*>(Kernel("add"));
  parameters.gridDim = parameters.blockDim = {1, 1, 1};
  parameters.extra = extra;
  cudaGraphNode_t node = nullptr;
  ASSERT_CUDA(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &parameters));
  arguments.value = 100;  // The node has its own copy.
  Run();
  EXPECT_EQ(Read(words, 2), (std::vector<std::uint32_t>{5, 5}));
  ASSERT_CUDA(cudaGraphKernelNodeSetParams(node, &parameters));
  Run();
  EXPECT_EQ(Read(words, 2), (std::vector<std::uint32_t>{105, 105}));

  void* given[] = {&arguments.words, &arguments.count, &arguments.value};
  parameters.kernelParams = given;
  EXPECT_CUDA_ERROR(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &parameters),
                    cudaErrorInvalidValue);
  parameters.kernelParams = nullptr;
  extra[3] = nullptr;
  EXPECT_CUDA_ERROR(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &parameters),
                    cudaErrorInvalidValue);
}

TEST_F(GraphNodesTest, NodesTellWhatTheyDo) {
  std::uint32_t* const words = NewWords(4);
  cudaGraphNodeParams told = ParametersOf(AddNode(words, 4, 7));
  EXPECT_EQ(told.type, cudaGraphNodeTypeKernel);
  ASSERT_NE(told.kernel.kernelParams, nullptr);
  EXPECT_EQ(*static_cast<std::uint32_t*>(told.kernel.kernelParams[2]), 7U);
  EXPECT_EQ(told.kernel.gridDim.x, 1U);
  told = ParametersOf(SetNode(words, 3, 4, 2));
  EXPECT_EQ(told.type, cudaGraphNodeTypeMemset);
  EXPECT_EQ(told.memset.dst, words);
  EXPECT_EQ(told.memset.value, 3U);
  EXPECT_EQ(told.memset.width, 2U);
  EXPECT_EQ(ParametersOf(EmptyNode()).type, cudaGraphNodeTypeEmpty);
  cudaGraphNode_t node = nullptr;
  ASSERT_CUDA(cudaGraphAddMemcpyNode1D(&node, graph, nullptr, 0, words, words + 2, 8,
                                       cudaMemcpyDeviceToDevice));
  told = ParametersOf(node);
  EXPECT_EQ(told.type, cudaGraphNodeTypeMemcpy);
  EXPECT_EQ(told.memcpy.copyParams.extent.width, 8U);
  cudaEvent_t event = NewEvent();
  ASSERT_CUDA(cudaGraphAddEventRecordNode(&node, graph, nullptr, 0, event));
  told = ParametersOf(node);
  EXPECT_EQ(told.type, cudaGraphNodeTypeEventRecord);
  EXPECT_EQ(told.eventRecord.event, event);
  cudaGraph_t child = nullptr;
  ASSERT_CUDA(cudaGraphCreate(&child, 0));
  ASSERT_CUDA(cudaGraphAddChildGraphNode(&node, graph, nullptr, 0, child));
  cudaGraph_t inside = nullptr;
  EXPECT_CUDA(cudaGraphChildGraphNodeGetGraph(node, &inside));
  told = ParametersOf(node);
  EXPECT_EQ(told.type, cudaGraphNodeTypeGraph);
  EXPECT_EQ(told.graph.graph, inside);
  EXPECT_CUDA(cudaGraphDestroy(child));
  EXPECT_CUDA_ERROR(cudaGraphNodeGetParams(node, nullptr), cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaGraphNodeGetParams(nullptr, &told), cudaErrorInvalidValue);
}

TEST_F(GraphNodesTest, GraphsAndNodesAreToldApart) {
  cudaGraphNode_t const one = EmptyNode();
  cudaGraphNode_t const two = EmptyNode();
  unsigned first = 0;
  unsigned second = 0;
  EXPECT_CUDA(cudaGraphNodeGetLocalId(one, &first));
  EXPECT_CUDA(cudaGraphNodeGetLocalId(two, &second));
  EXPECT_NE(first, second);
  unsigned long long for_tools = 0;
  unsigned long long others = 0;
  EXPECT_CUDA(cudaGraphNodeGetToolsId(one, &for_tools));
  EXPECT_CUDA(cudaGraphNodeGetToolsId(two, &others));
  EXPECT_NE(for_tools, others);
  cudaGraph_t containing = nullptr;
  EXPECT_CUDA(cudaGraphNodeGetContainingGraph(one, &containing));
  EXPECT_EQ(containing, graph);
  cudaGraph_t other = nullptr;
  ASSERT_CUDA(cudaGraphCreate(&other, 0));
  EXPECT_CUDA(cudaGraphGetId(graph, &first));
  EXPECT_CUDA(cudaGraphGetId(other, &second));
  EXPECT_NE(first, second);
  EXPECT_CUDA(cudaGraphDestroy(other));
  cudaGraphExec_t exec = Instantiate();
  EXPECT_CUDA(cudaGraphExecGetId(exec, &first));
  EXPECT_CUDA(cudaGraphExecDestroy(exec));
  EXPECT_CUDA_ERROR(cudaGraphGetId(graph, nullptr), cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaGraphNodeGetLocalId(nullptr, &first), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace cuspan

// A graph, and functions to add nodes to it.
#pragma once

#include "tests/unit/interpose/loopback/loopback.h"

namespace cuspan {

class GraphsFixture : public LoopbackTest {
 protected:
  using Nodes = std::vector<cudaGraphNode_t>;

  GraphsFixture() { EXPECT_CUDA(cudaGraphCreate(&graph, 0)); }
  ~GraphsFixture() override { EXPECT_CUDA(cudaGraphDestroy(graph)); }

  // Add nodes to `graph`, after the nodes of `before`.
  cudaGraphNode_t AddNode(std::uint32_t* words, std::uint32_t count, std::uint32_t value,
                          const Nodes& before = {}) {
    AddKernel kernel(Kernel("add"), words, count, value);
    cudaGraphNode_t node = nullptr;
    EXPECT_CUDA(
        cudaGraphAddKernelNode(&node, graph, before.data(), before.size(), &kernel.parameters));
    return node;
  }
  cudaGraphNode_t SetNode(void* memory, unsigned value, unsigned element_bytes,
                          std::size_t elements, const Nodes& before = {}) const {
    const cudaMemsetParams parameters{memory, 0, value, element_bytes, elements, 1};
    cudaGraphNode_t node = nullptr;
    EXPECT_CUDA(cudaGraphAddMemsetNode(&node, graph, before.data(), before.size(), &parameters));
    return node;
  }
  cudaGraphNode_t EmptyNode(const Nodes& before = {}) const {
    cudaGraphNode_t node = nullptr;
    EXPECT_CUDA(cudaGraphAddEmptyNode(&node, graph, before.data(), before.size()));
    return node;
  }
  cudaGraphExec_t Instantiate(unsigned long long flags = 0) const {
    cudaGraphExec_t exec = nullptr;
    EXPECT_CUDA(cudaGraphInstantiate(&exec, graph, flags));
    return exec;
  }
  // Launches the current graph once and waits for its end.
  void Run() const {
    cudaGraphExec_t exec = Instantiate();
    EXPECT_CUDA(cudaGraphLaunch(exec, stream));
    EXPECT_CUDA(cudaStreamSynchronize(stream));
    EXPECT_CUDA(cudaGraphExecDestroy(exec));
  }

  // Parameters of a node launching "add".
  struct AddKernel {
    AddKernel(const void* function, std::uint32_t* words, std::uint32_t count, std::uint32_t value)
        : words(words), count(count), value(value) {
      parameters.func = const_cast<void*>(function);
      parameters.gridDim = parameters.blockDim = {1, 1, 1};
      parameters.kernelParams = arguments;
    }
    AddKernel(const AddKernel&) = delete;
    std::uint32_t* words;
    std::uint32_t count;
    std::uint32_t value;
    void* arguments[3] = {&words, &count, &value};
    cudaKernelNodeParams parameters{};
  };

  cudaGraph_t graph = nullptr;
  const cudaStream_t stream = NewStream();
};

}  // namespace cuspan

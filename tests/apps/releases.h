// Calls with different arguments in CUDA 11, 12 and 13.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

inline cudaError_t CountEdges(cudaGraph_t graph, std::size_t* count) {
#if CUDART_VERSION >= 13000
  return cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, count);
#else
  return cudaGraphGetEdges(graph, nullptr, nullptr, count);
#endif
}

inline cudaError_t CountDependencies(cudaGraphNode_t node, std::size_t* count) {
#if CUDART_VERSION >= 13000
  return cudaGraphNodeGetDependencies(node, nullptr, nullptr, count);
#else
  return cudaGraphNodeGetDependencies(node, nullptr, count);
#endif
}

inline cudaError_t RemoveEdge(cudaGraph_t graph, cudaGraphNode_t from, cudaGraphNode_t to) {
#if CUDART_VERSION >= 13000
  return cudaGraphRemoveDependencies(graph, &from, &to, nullptr, 1);
#else
  return cudaGraphRemoveDependencies(graph, &from, &to, 1);
#endif
}

inline cudaError_t Instantiate(cudaGraphExec_t* exec, cudaGraph_t graph) {
#if CUDART_VERSION >= 12000
  return cudaGraphInstantiate(exec, graph, 0);
#else
  cudaGraphNode_t node = nullptr;
  char text[64] = "?";
  return cudaGraphInstantiate(exec, graph, &node, text, sizeof text);
#endif
}

inline cudaError_t Update(cudaGraphExec_t exec, cudaGraph_t graph,
                          cudaGraphExecUpdateResult* result) {
#if CUDART_VERSION >= 12000
  cudaGraphExecUpdateResultInfo info{};
  const cudaError_t error = cudaGraphExecUpdate(exec, graph, &info);
  *result = info.result;
  return error;
#else
  cudaGraphNode_t node = nullptr;
  return cudaGraphExecUpdate(exec, graph, &node, result);
#endif
}

#if CUDART_VERSION >= 12080
inline cudaError_t CopyBatch(void** to, void** from, std::size_t* sizes, std::size_t count,
                             cudaMemcpyAttributes* attributes, std::size_t* first,
                             std::size_t groups, cudaStream_t stream) {
#if CUDART_VERSION >= 13000
  return cudaMemcpyBatchAsync(to, const_cast<const void**>(from), sizes, count, attributes, first,
                              groups, stream);
#else
  std::size_t failed = 0;
  return cudaMemcpyBatchAsync(to, from, sizes, count, attributes, first, groups, &failed, stream);
#endif
}

inline cudaError_t CopyBatch(cudaMemcpy3DBatchOp* copies, std::size_t count, cudaStream_t stream) {
#if CUDART_VERSION >= 13000
  return cudaMemcpy3DBatchAsync(count, copies, 0, stream);
#else
  std::size_t failed = 0;
  return cudaMemcpy3DBatchAsync(count, copies, &failed, 0, stream);
#endif
}
#endif

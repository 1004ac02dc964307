// Functions that programs built with CUDA 11 and 12 call and CUDA 13 no longer
// has: earlier names of what is still there, and the structure that has changed.
#include "interpose/runtime/device_properties_12.h"
#include "interpose/runtime/entry.h"

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT cudaError_t cudaThreadSynchronize() { return cudaDeviceSynchronize(); }

CUSPAN_EXPORT cudaError_t cudaThreadExit() { return cudaDeviceReset(); }

CUSPAN_EXPORT cudaError_t cudaThreadGetLimit(std::size_t* value, cudaLimit limit) {
  return cudaDeviceGetLimit(value, limit);
}

CUSPAN_EXPORT cudaError_t cudaThreadSetLimit(cudaLimit limit, std::size_t value) {
  return cudaDeviceSetLimit(limit, value);
}

CUSPAN_EXPORT cudaError_t cudaThreadGetCacheConfig(cudaFuncCache* config) {
  return cudaDeviceGetCacheConfig(config);
}

CUSPAN_EXPORT cudaError_t cudaThreadSetCacheConfig(cudaFuncCache config) {
  return cudaDeviceSetCacheConfig(config);
}

CUSPAN_EXPORT cudaError_t cudaEventElapsedTime_v2(float* milliseconds, cudaEvent_t start,
                                                  cudaEvent_t end) {
  return cudaEventElapsedTime(milliseconds, start, end);
}

CUSPAN_EXPORT cudaError_t cudaGetDeviceProperties_v2(DeviceProperties12* properties, int device) {
  return Answer([&]() -> Error {
    if (properties == nullptr) return cudaErrorInvalidValue;
    return WithSession([&](Session& session) -> Error {
      if (device < 0 || device >= session.device_count()) return cudaErrorInvalidDevice;
      *properties = MakeProperties12(session.description(device));
      return cudaSuccess;
    });
  });
}

// Of CUDA 12, with the data of edges that 13's functions of the plain names have.
CUSPAN_EXPORT cudaError_t cudaGraphGetEdges_v2(cudaGraph_t graph, cudaGraphNode_t* from,
                                               cudaGraphNode_t* to, cudaGraphEdgeData* edges,
                                               std::size_t* count) {
  return cudaGraphGetEdges(graph, from, to, edges, count);
}

CUSPAN_EXPORT cudaError_t cudaGraphNodeGetDependencies_v2(cudaGraphNode_t node,
                                                          cudaGraphNode_t* nodes,
                                                          cudaGraphEdgeData* edges,
                                                          std::size_t* count) {
  return cudaGraphNodeGetDependencies(node, nodes, edges, count);
}

CUSPAN_EXPORT cudaError_t cudaGraphNodeGetDependentNodes_v2(cudaGraphNode_t node,
                                                            cudaGraphNode_t* nodes,
                                                            cudaGraphEdgeData* edges,
                                                            std::size_t* count) {
  return cudaGraphNodeGetDependentNodes(node, nodes, edges, count);
}

CUSPAN_EXPORT cudaError_t cudaGraphAddDependencies_v2(cudaGraph_t graph,
                                                      const cudaGraphNode_t* from,
                                                      const cudaGraphNode_t* to,
                                                      const cudaGraphEdgeData* edges,
                                                      std::size_t count) {
  return cudaGraphAddDependencies(graph, from, to, edges, count);
}

CUSPAN_EXPORT cudaError_t cudaGraphRemoveDependencies_v2(cudaGraph_t graph,
                                                         const cudaGraphNode_t* from,
                                                         const cudaGraphNode_t* to,
                                                         const cudaGraphEdgeData* edges,
                                                         std::size_t count) {
  return cudaGraphRemoveDependencies(graph, from, to, edges, count);
}

CUSPAN_EXPORT cudaError_t cudaGraphAddNode_v2(cudaGraphNode_t* node, cudaGraph_t graph,
                                              const cudaGraphNode_t* dependencies,
                                              const cudaGraphEdgeData* edges, std::size_t count,
                                              cudaGraphNodeParams* parameters) {
  return cudaGraphAddNode(node, graph, dependencies, edges, count, parameters);
}

CUSPAN_EXPORT_TWINS(cudaStreamUpdateCaptureDependencies_v2, _ptsz,
                    (cudaStream_t stream, cudaGraphNode_t* dependencies,
                     const cudaGraphEdgeData* edges, std::size_t count, unsigned flags),
                    (meaning == DefaultStream::kLegacy
                         ? cudaStreamUpdateCaptureDependencies
                         : cudaStreamUpdateCaptureDependencies_ptsz)(stream, dependencies, edges,
                                                                     count, flags))

// Of the results only the status is defined for a stream that is not capturing.
CUSPAN_EXPORT_TWINS(cudaStreamGetCaptureInfo_v2, _ptsz,
                    (cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                     cudaGraph_t* graph, const cudaGraphNode_t** dependencies, std::size_t* count),
                    (meaning == DefaultStream::kLegacy
                         ? cudaStreamGetCaptureInfo
                         : cudaStreamGetCaptureInfo_ptsz)(stream, status, id, graph, dependencies,
                                                          nullptr, count))

CUSPAN_EXPORT_TWINS(cudaStreamGetCaptureInfo_v3, _ptsz,
                    (cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                     cudaGraph_t* graph, const cudaGraphNode_t** dependencies,
                     const cudaGraphEdgeData** edges, std::size_t* count),
                    (meaning == DefaultStream::kLegacy
                         ? cudaStreamGetCaptureInfo
                         : cudaStreamGetCaptureInfo_ptsz)(stream, status, id, graph, dependencies,
                                                          edges, count))

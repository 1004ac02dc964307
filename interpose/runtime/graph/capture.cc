// Stream capture.
#include "interpose/calls/graph/capture.h"

#include "interpose/runtime/caller.h"
#include "interpose/runtime/entry.h"

namespace cuspan {
namespace {

[[gnu::always_inline]] inline cudaError_t Update(cudaStream_t stream, DefaultStream meaning,
                                                 cudaGraphNode_t* dependencies, std::size_t count,
                                                 unsigned flags) {
  return Answer(
      [&] { return UpdateCaptureDependencies(stream, meaning, dependencies, count, flags); });
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT_TWINS(cudaStreamBeginCapture, _ptsz,
                    (cudaStream_t stream, cudaStreamCaptureMode mode), Answer([&] {
                      return BeginCapture(stream, meaning, static_cast<CUstreamCaptureMode>(mode));
                    }))

CUSPAN_EXPORT_TWINS(cudaStreamBeginCaptureToGraph, _ptsz,
                    (cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                     const cudaGraphEdgeData* /*edges*/, std::size_t count,
                     cudaStreamCaptureMode mode),
                    Answer([&] {
                      return BeginCaptureToGraph(stream, meaning, graph, dependencies, count,
                                                 static_cast<CUstreamCaptureMode>(mode));
                    }))

CUSPAN_EXPORT_TWINS(cudaStreamEndCapture, _ptsz, (cudaStream_t stream, cudaGraph_t* graph),
                    Answer([&] { return EndCapture(stream, meaning, graph); }))

// Before CUDA 13, there was no parameter `edges`, and the parameters after it came earlier.
CUSPAN_EXPORT_TWINS(cudaStreamUpdateCaptureDependencies, _ptsz,
                    (cudaStream_t stream, cudaGraphNode_t* dependencies,
                     const cudaGraphEdgeData* edges, std::size_t count, unsigned flags),
                    CallerIsBefore13(__builtin_return_address(0))
                        ? Update(stream, meaning, dependencies, NumberOf(edges),
                                 static_cast<unsigned>(count))
                        : Update(stream, meaning, dependencies, count, flags))

CUSPAN_EXPORT_TWINS(cudaStreamUpdateCaptureDependencies_v2, _ptsz,
                    (cudaStream_t stream, cudaGraphNode_t* dependencies,
                     const cudaGraphEdgeData* /*edges*/, std::size_t count, unsigned flags),
                    Update(stream, meaning, dependencies, count, flags))

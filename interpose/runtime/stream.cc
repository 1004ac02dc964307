// Streams.
#include "interpose/calls/stream.h"

#include "interpose/calls/event.h"
#include "interpose/calls/graph/capture.h"
#include "interpose/runtime/caller.h"
#include "interpose/runtime/entry.h"

namespace cuspan {
namespace {

[[gnu::always_inline]] inline cudaError_t CaptureInfoOf(cudaStream_t stream, DefaultStream meaning,
                                                        cudaStreamCaptureStatus* status,
                                                        unsigned long long* id, cudaGraph_t* graph,
                                                        const cudaGraphNode_t** dependencies,
                                                        const cudaGraphEdgeData** edges,
                                                        std::size_t* count) {
  return Answer([&]() -> Error {
    if (status == nullptr) return cudaErrorInvalidValue;
    CUstreamCaptureStatus drivers = CU_STREAM_CAPTURE_STATUS_NONE;
    cuuint64_t number = 0;
    const CUgraphEdgeData* none = nullptr;
    CUSPAN_RETURN_IF_FAILED(
        GetCaptureInfo(stream, meaning, {&drivers, &number, graph, dependencies, &none, count}));
    *status = static_cast<cudaStreamCaptureStatus>(drivers);
    if (drivers != CU_STREAM_CAPTURE_STATUS_ACTIVE) return cudaSuccess;
    if (id != nullptr) *id = number;
    if (edges != nullptr) *edges = nullptr;
    return cudaSuccess;
  });
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return Answer([&] { return CreateStream(cudaStreamDefault, 0, stream); });
}

CUSPAN_EXPORT cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return Answer([&] { return CreateStream(flags, 0, stream); });
}

CUSPAN_EXPORT cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags,
                                                       int priority) {
  return Answer([&] { return CreateStream(flags, priority, stream); });
}

CUSPAN_EXPORT cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return Answer([&] { return DestroyStream(stream); });
}

CUSPAN_EXPORT_TWINS(cudaStreamSynchronize, _ptsz, (cudaStream_t stream),
                    Answer([&] { return SynchronizeStream(stream, meaning); }))

CUSPAN_EXPORT_TWINS(cudaStreamQuery, _ptsz, (cudaStream_t stream),
                    Answer([&] { return QueryStream(stream, meaning); }))

CUSPAN_EXPORT_TWINS(cudaStreamWaitEvent, _ptsz,
                    (cudaStream_t stream, cudaEvent_t event, unsigned flags),
                    Answer([&] { return WaitEvent(stream, event, flags, meaning); }))

CUSPAN_EXPORT_TWINS(cudaStreamGetFlags, _ptsz, (cudaStream_t stream, unsigned* flags),
                    Answer([&]() -> Error {
                      if (flags == nullptr) return cudaErrorInvalidValue;
                      return WithStream(stream, meaning, [&](const auto&, const auto& made) {
                        *flags = made != nullptr ? made->flags : unsigned{cudaStreamDefault};
                      });
                    }))

CUSPAN_EXPORT_TWINS(cudaStreamGetPriority, _ptsz, (cudaStream_t stream, int* priority),
                    Answer([&]() -> Error {
                      if (priority == nullptr) return cudaErrorInvalidValue;
                      return WithStream(stream, meaning, [&](const auto&, const auto& made) {
                        *priority = made != nullptr ? made->priority : 0;
                      });
                    }))

CUSPAN_EXPORT_TWINS(cudaStreamGetDevice, _ptsz, (cudaStream_t stream, int* device),
                    Answer([&]() -> Error {
                      if (device == nullptr) return cudaErrorInvalidValue;
                      return WithStream(stream, meaning, [&](const auto& target, const auto&) {
                        *device = target.connection->device();
                      });
                    }))

CUSPAN_EXPORT_TWINS(cudaStreamGetId, _ptsz, (cudaStream_t stream, unsigned long long* id),
                    Answer([&]() -> Error {
                      if (id == nullptr) return cudaErrorInvalidValue;
                      return WithStream(stream, meaning, [&](const auto& target, const auto&) {
                        *id = IdOf(target);
                      });
                    }))

CUSPAN_EXPORT_TWINS(cudaStreamIsCapturing, _ptsz,
                    (cudaStream_t stream, cudaStreamCaptureStatus* status), Answer([&]() -> Error {
                      if (status == nullptr) return cudaErrorInvalidValue;
                      return WithStream(stream, meaning, [&](const auto& target, const auto&) {
                        *status = static_cast<cudaStreamCaptureStatus>(CaptureOf(target).status);
                      });
                    }))

// Results other than the status are defined only for capturing streams.
CUSPAN_EXPORT_TWINS(cudaStreamGetCaptureInfo, _ptsz,
                    (cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                     cudaGraph_t* graph, const cudaGraphNode_t** dependencies,
                     const cudaGraphEdgeData** edges, std::size_t* count),
                    // Before CUDA 13, it had the first three parameters only.
                    CallerIsBefore13(__builtin_return_address(0))
                        ? CaptureInfoOf(stream, meaning, status, id, nullptr, nullptr, nullptr,
                                        nullptr)
                        : CaptureInfoOf(stream, meaning, status, id, graph, dependencies, edges,
                                        count))

// CUDA 12's names of the same function, without and with edge data.
CUSPAN_EXPORT_TWINS(cudaStreamGetCaptureInfo_v2, _ptsz,
                    (cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                     cudaGraph_t* graph, const cudaGraphNode_t** dependencies, std::size_t* count),
                    CaptureInfoOf(stream, meaning, status, id, graph, dependencies, nullptr, count))

CUSPAN_EXPORT_TWINS(cudaStreamGetCaptureInfo_v3, _ptsz,
                    (cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                     cudaGraph_t* graph, const cudaGraphNode_t** dependencies,
                     const cudaGraphEdgeData** edges, std::size_t* count),
                    CaptureInfoOf(stream, meaning, status, id, graph, dependencies, edges, count))

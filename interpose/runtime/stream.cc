// Streams.
#include <algorithm>

#include "interpose/calls/attributes.h"
#include "interpose/calls/event.h"
#include "interpose/calls/graph/capture.h"
#include "interpose/client/thread_state.h"
#include "interpose/runtime/caller.h"
#include "interpose/runtime/entry.h"

namespace cuspan {
namespace {

Error CreateStream(cudaStream_t* stream, unsigned flags, int priority) {
  if (stream == nullptr || (flags & ~unsigned{cudaStreamNonBlocking}) != 0) {
    return cudaErrorInvalidValue;
  }
  return WithSession([&](Session& session) -> Error {
    const PriorityRange range = PrioritiesOf(session.devices().description(CurrentDevice()));
    std::uint64_t made = 0;
    CUSPAN_RETURN_IF_FAILED(
        session.streams().Create(flags, std::clamp(priority, range.greatest, range.least), &made));
    *stream = HandleOf<cudaStream_t>(made);
    return cudaSuccess;
  });
}

// use(target, what the program made; null for a default stream). Checks the handle.
template <typename Use>
Error AboutStream(cudaStream_t stream, DefaultStream meaning, Use&& use) {
  return WithSession([&](Session& session) -> Error {
    StreamTarget target;
    CUSPAN_RETURN_IF_FAILED(session.streams().Resolve(stream, meaning, &target));
    use(target, session.streams().Find(NumberOf(stream)));
    return cudaSuccess;
  });
}

// Numbers are unique among all streams of the process: handles are, and the
// legacy default stream of a device goes by the number of its proxy.
std::uint64_t IdOf(const StreamTarget& target) {
  return target.stream != 0 ? target.stream : target.link->number();
}

cudaError_t CaptureInfo(cudaStream_t stream, DefaultStream meaning, cudaStreamCaptureStatus* status,
                        unsigned long long* id, cudaGraph_t* graph,
                        const cudaGraphNode_t** dependencies, const cudaGraphEdgeData** edges,
                        std::size_t* count) {
  return Answer([&]() -> Error {
    if (status == nullptr) return cudaErrorInvalidValue;
    return AboutStream(stream, meaning, [&](const auto& target, const auto&) {
      const CaptureState state = CaptureOf(target);
      *status = static_cast<cudaStreamCaptureStatus>(state.status);
      if (state.status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return;
      // The list is the thread's until it asks again.
      thread_local std::vector<cudaGraphNode_t> list;
      list = state.dependencies;
      if (id != nullptr) *id = state.id;
      if (graph != nullptr) *graph = state.graph;
      if (dependencies != nullptr) *dependencies = list.data();
      if (edges != nullptr) *edges = nullptr;
      if (count != nullptr) *count = list.size();
    });
  });
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return Answer([&] { return CreateStream(stream, cudaStreamDefault, 0); });
}

CUSPAN_EXPORT cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return Answer([&] { return CreateStream(stream, flags, 0); });
}

CUSPAN_EXPORT cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags,
                                                       int priority) {
  return Answer([&] { return CreateStream(stream, flags, priority); });
}

CUSPAN_EXPORT cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return Answer([&] {
    return WithSession(
        [&](Session& session) -> Error { return session.streams().Destroy(NumberOf(stream)); });
  });
}

CUSPAN_EXPORT_TWINS(cudaStreamSynchronize, _ptsz, (cudaStream_t stream), Answer([&] {
                      return OnStream(stream, meaning,
                                      [](Session& session, const StreamTarget& target) {
                                        return session.streams().Synchronize(target);
                                      });
                    }))

CUSPAN_EXPORT_TWINS(cudaStreamQuery, _ptsz, (cudaStream_t stream), Answer([&] {
                      return OnStream(stream, meaning,
                                      [](Session& session, const StreamTarget& target) {
                                        return session.streams().Query(target);
                                      });
                    }))

CUSPAN_EXPORT_TWINS(cudaStreamWaitEvent, _ptsz,
                    (cudaStream_t stream, cudaEvent_t event, unsigned flags),
                    Answer([&] { return WaitEvent(stream, event, flags, meaning); }))

CUSPAN_EXPORT_TWINS(cudaStreamGetFlags, _ptsz, (cudaStream_t stream, unsigned* flags),
                    Answer([&]() -> Error {
                      if (flags == nullptr) return cudaErrorInvalidValue;
                      return AboutStream(stream, meaning, [&](const auto&, const auto& made) {
                        *flags = made != nullptr ? made->flags : unsigned{cudaStreamDefault};
                      });
                    }))

CUSPAN_EXPORT_TWINS(cudaStreamGetPriority, _ptsz, (cudaStream_t stream, int* priority),
                    Answer([&]() -> Error {
                      if (priority == nullptr) return cudaErrorInvalidValue;
                      return AboutStream(stream, meaning, [&](const auto&, const auto& made) {
                        *priority = made != nullptr ? made->priority : 0;
                      });
                    }))

CUSPAN_EXPORT_TWINS(cudaStreamGetDevice, _ptsz, (cudaStream_t stream, int* device),
                    Answer([&]() -> Error {
                      if (device == nullptr) return cudaErrorInvalidValue;
                      return AboutStream(stream, meaning, [&](const auto& target, const auto&) {
                        *device = target.link->device();
                      });
                    }))

CUSPAN_EXPORT_TWINS(cudaStreamGetId, _ptsz, (cudaStream_t stream, unsigned long long* id),
                    Answer([&]() -> Error {
                      if (id == nullptr) return cudaErrorInvalidValue;
                      return AboutStream(stream, meaning, [&](const auto& target, const auto&) {
                        *id = IdOf(target);
                      });
                    }))

CUSPAN_EXPORT_TWINS(cudaStreamIsCapturing, _ptsz,
                    (cudaStream_t stream, cudaStreamCaptureStatus* status), Answer([&]() -> Error {
                      if (status == nullptr) return cudaErrorInvalidValue;
                      return AboutStream(stream, meaning, [&](const auto& target, const auto&) {
                        *status = static_cast<cudaStreamCaptureStatus>(CaptureOf(target).status);
                      });
                    }))

// But for the status, the results are defined for capturing streams only.
CUSPAN_EXPORT_TWINS(cudaStreamGetCaptureInfo, _ptsz,
                    (cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                     cudaGraph_t* graph, const cudaGraphNode_t** dependencies,
                     const cudaGraphEdgeData** edges, std::size_t* count),
                    // Before CUDA 13 it had the first three only.
                    CallerIsBefore13(__builtin_return_address(0))
                        ? CaptureInfo(stream, meaning, status, id, nullptr, nullptr, nullptr,
                                      nullptr)
                        : CaptureInfo(stream, meaning, status, id, graph, dependencies, edges,
                                      count))

// CUDA 12's names of what 13's has become, without and with the data of edges.
CUSPAN_EXPORT_TWINS(cudaStreamGetCaptureInfo_v2, _ptsz,
                    (cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                     cudaGraph_t* graph, const cudaGraphNode_t** dependencies, std::size_t* count),
                    CaptureInfo(stream, meaning, status, id, graph, dependencies, nullptr, count))

CUSPAN_EXPORT_TWINS(cudaStreamGetCaptureInfo_v3, _ptsz,
                    (cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                     cudaGraph_t* graph, const cudaGraphNode_t** dependencies,
                     const cudaGraphEdgeData** edges, std::size_t* count),
                    CaptureInfo(stream, meaning, status, id, graph, dependencies, edges, count))

// Stream capture: what is put into a capturing stream becomes nodes of a graph.
//
// A capture begins in one stream. Another stream joins it by waiting for an
// event that was recorded in it. Each stream has the nodes that its next one
// will depend on.
#pragma once

#include <type_traits>

#include "interpose/calls/graph/graph.h"

namespace cuspan {

// --- For calls that put something into a stream.

// Whether the work of a call was described. A call that is refused because of its arguments leaves
// a capture as it was; what only the driver refuses ends it (as an H200 with runtime 13.0 did).
struct Described {
  Error error;
  bool ends_capture = false;
  Described(Error error) : error(error) {}        // NOLINT: as it is returned.
  Described(cudaError_t error) : error(error) {}  // NOLINT
  Described(CUresult error) : error(error) {}     // NOLINT
  Described(Error error, bool ends) : error(error), ends_capture(ends) {}
};
inline Described OrEndsCapture(Error error) { return {error, error.failed()}; }

// make_work(NewNode, Work*) → Described says what the call would do. When the stream is capturing,
// it becomes a node and *captured is true; when it is not, nothing happens.
using MakeWork = std::function<Described(const NewNode&, Work*)>;
Error CaptureWork(Session& session, const StreamTarget& target, const MakeWork& make_work,
                  bool* captured);
// A record of an event, or a wait for one: these only move dependencies.
Error CaptureRecord(Session& session, const StreamTarget& target, CUevent event, bool* captured);
Error CaptureWait(Session& session, const StreamTarget& target, CUevent event, bool* captured);
// Whether the event's latest record was captured, by a capture that goes on.
bool IsCaptured(CUevent event);
// The same for who wants to wait for it: ends the capture with CUDA_ERROR_CAPTURED_EVENT.
Error RefuseCapturedEvent(CUevent event);

// body(Session&, const StreamTarget&) → Error, or in a capturing stream
// make_work(Session&, const StreamTarget&, [const NewNode&,] Work*) → Error or Described. As
// OnStream otherwise.
template <typename Body, typename Describe>
Error InStream(CUstream stream, DefaultStream meaning, Body&& body, Describe&& make_work) {
  return WithSession([&](Session& session) -> Error {
    StreamTarget target;
    CUSPAN_RETURN_IF_FAILED(session.streams().Resolve(stream, meaning, &target));
    if (AnyCapture()) [[unlikely]] {
      bool captured = false;
      CUSPAN_RETURN_IF_FAILED(CaptureWork(
          session, target,
          [&](const NewNode& place, Work* work) -> Described {
            if constexpr (std::is_invocable_v<Describe, Session&, const StreamTarget&,
                                              const NewNode&, Work*>)
              return make_work(session, target, place, work);
            else
              return make_work(session, target, work);
          },
          &captured));
      if (captured) return CUDA_SUCCESS;
    }
    CUSPAN_RETURN_IF_FAILED(body(session, target));
    return target.connection->TakePostedFailure();
  });
}

// The same for a record of an event or a wait for one. In a capturing stream it moves dependencies,
// as `capture` does it, or becomes `external`, a node that does it at each launch, if `flags` say
// so.
template <typename Body>
Error EventInStream(CUevent event, CUstream stream, unsigned flags, DefaultStream meaning,
                    decltype(CaptureRecord)* capture, const Work& external, Body&& body) {
  static_assert(CU_EVENT_RECORD_EXTERNAL == 1 && CU_EVENT_WAIT_EXTERNAL == 1);
  return WithSession([&](Session& session) -> Error {
    StreamTarget target;
    CUSPAN_RETURN_IF_FAILED(session.streams().Resolve(stream, meaning, &target));
    if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (flags > CU_EVENT_RECORD_EXTERNAL) return CUDA_ERROR_INVALID_VALUE;
    const bool is_external = flags == CU_EVENT_RECORD_EXTERNAL;
    bool captured = false;
    if (AnyCapture()) {
      const auto describe = [&](const NewNode&, Work* work) -> Error {
        *work = external;
        return CUDA_SUCCESS;
      };
      CUSPAN_RETURN_IF_FAILED(is_external ? CaptureWork(session, target, describe, &captured)
                                          : capture(session, target, event, &captured));
    }
    if (captured) return CUDA_SUCCESS;
    if (is_external) return CUDA_ERROR_ILLEGAL_STATE;
    CUSPAN_RETURN_IF_FAILED(body(session, target));
    return target.connection->TakePostedFailure();
  });
}

// --- What the program asks for.

Error BeginCapture(CUstream stream, DefaultStream meaning, CUstreamCaptureMode mode);
// What is captured depends on these nodes of the graph, into which it goes.
Error BeginCaptureToGraph(CUstream stream, DefaultStream meaning, CUgraph graph,
                          const CUgraphNode* dependencies, std::size_t count,
                          CUstreamCaptureMode mode);
Error EndCapture(CUstream stream, DefaultStream meaning, CUgraph* graph);
// `flags` as in CUstreamUpdateCaptureDependencies_flags.
Error UpdateCaptureDependencies(CUstream stream, DefaultStream meaning,
                                const CUgraphNode* dependencies, std::size_t count, unsigned flags);

// --- What a stream says of itself.

struct CaptureState {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  unsigned long long id = 0;
  CUgraph graph = nullptr;
  std::vector<CUgraphNode> dependencies;
};
CaptureState CaptureOf(const StreamTarget& target);

}  // namespace cuspan

// Stream capture: work put into a capturing stream becomes nodes of a graph.
//
// A capture begins in one stream. Another stream joins it by waiting for an event recorded in it.
// Each stream keeps a list of nodes: the dependencies of its next node.
#pragma once

#include <type_traits>

#include "interpose/calls/graph/graph.h"

namespace cuspan {

// --- Calls putting work into a stream

// Result of describing a call's work. A call refused because of its arguments does not affect a
// capture. If only the driver refuses it, the capture ends (as on an H200 with runtime 13.0).
struct Described {
  Error error;
  bool ends_capture = false;
  Described(Error error) : error(error) {}        // NOLINT: as it is returned.
  Described(cudaError_t error) : error(error) {}  // NOLINT
  Described(CUresult error) : error(error) {}     // NOLINT
  Described(Error error, bool ends) : error(error), ends_capture(ends) {}
};
inline Described OrEndsCapture(Error error) { return {error, error.failed()}; }

// make_work(NewNode, Work*) → Described describes the call's work. If the stream is capturing, it
// becomes a node and *captured is true. If not, nothing happens.
using MakeWork = std::function<Described(const NewNode&, Work*)>;
Error CaptureWork(Session& session, const StreamTarget& target, const MakeWork& make_work,
                  bool* captured);
// Record of an event, or wait for one: these only change dependencies.
Error CaptureRecord(Session& session, const StreamTarget& target, CUevent event, bool* captured);
Error CaptureWait(Session& session, const StreamTarget& target, CUevent event, bool* captured);
// True if an active capture contains the event's latest record.
bool IsCaptured(CUevent event);
// To be called before a wait for it: ends such a capture with CUDA_ERROR_CAPTURED_EVENT.
Error RefuseCapturedEvent(CUevent event);

// Calls body(Session&, const StreamTarget&) → Error or, in a capturing stream, make_work(Session&,
// const StreamTarget&, [const NewNode&,] Work*) → Error or Described. Otherwise like OnStream.
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

// Same for the record of an event or the wait for one. In a capturing stream, `capture` changes the
// dependencies. If `flags` say external, the node `external` does it at each launch instead.
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

// --- Calls of the program

Error BeginCapture(CUstream stream, DefaultStream meaning, CUstreamCaptureMode mode);
// Captures into `graph`, with these nodes of it as first dependencies.
Error BeginCaptureToGraph(CUstream stream, DefaultStream meaning, CUgraph graph,
                          const CUgraphNode* dependencies, std::size_t count,
                          CUstreamCaptureMode mode);
Error EndCapture(CUstream stream, DefaultStream meaning, CUgraph* graph);
// `flags` as in CUstreamUpdateCaptureDependencies_flags.
Error UpdateCaptureDependencies(CUstream stream, DefaultStream meaning,
                                const CUgraphNode* dependencies, std::size_t count, unsigned flags);

// --- State of a stream

struct CaptureState {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  unsigned long long id = 0;
  CUgraph graph = nullptr;
  std::vector<CUgraphNode> dependencies;
};
CaptureState CaptureOf(const StreamTarget& target);

}  // namespace cuspan

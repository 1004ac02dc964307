// Stream capture: work put into a capturing stream becomes nodes of a graph.
//
// A capture begins in one stream. Another stream joins it by waiting for an event recorded in it.
// Each stream keeps a list of nodes: the dependencies of its next node.
#pragma once

#include <functional>
#include <vector>

#include "interpose/calls/graph/graph_table.h"

namespace cuspan {

// True if a stream of the session is capturing. Takes no lock: libraries call it before nearly
// every call.
inline bool AnyCapture(Session& session) {
  return session.capturing_streams().load(std::memory_order_acquire) != 0;
}
// Same before a session exists.
inline bool AnyCapture() {
  Session* const session = Session::IfStarted();
  return session != nullptr && AnyCapture(*session);
}

// --- Refusal of calls not allowed in a graph: ends the capture concerned, and returns the error.
// Success if no capture is concerned.

Error RefuseCapture(Session& session, const StreamTarget& target);
Error RefuseCaptureOnDevice(Session& session, int device);
// Same for calls possibly waiting for a device, or otherwise unknown to captures. Refused during a
// capture forbidding them to the calling thread, see cuThreadExchangeStreamCaptureMode.
Error RefuseUnsafe(Session& session);

// --- Work put into a stream (in_stream.h)

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
bool IsCaptured(Session& session, CUevent event);
// To be called before a wait for it: ends such a capture with CUDA_ERROR_CAPTURED_EVENT.
Error RefuseCapturedEvent(Session& session, CUevent event);

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

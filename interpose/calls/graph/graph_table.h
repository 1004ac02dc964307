// The session's table of graphs and captures, and access to it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "common/mutex.h"
#include "interpose/calls/graph/graph.h"
#include "interpose/client/host_calls.h"

namespace cuspan {

struct Capture;

// A stream taking part in a capture.
struct CapturingStream {
  std::shared_ptr<Capture> capture;
  std::uint64_t connection = 0;  // Its context's generation.
  bool made_by_program = false;  // False for a thread's default stream.
  bool blocking = true;          // Synchronizes with the legacy stream.
};

struct CapturedRecord {
  std::weak_ptr<Capture> capture;
  std::vector<GraphNode*> nodes;
};

// A user object with the program's own references.
struct OwnedObject {
  std::weak_ptr<UserObject> object;
  std::shared_ptr<UserObject> kept;  // Null without references of the program.
  unsigned references = 0;
};

// One per session (Session::TableOf), never destroyed. Threads: any.
struct GraphTable {
  mutable Mutex mutex;
  Graphs graphs CUSPAN_GUARDED_BY(mutex);
  // Captures by stream, and records of events in captures.
  std::unordered_map<std::uint64_t, CapturingStream> capturing CUSPAN_GUARDED_BY(mutex);
  std::unordered_map<std::uint64_t, CapturedRecord> records CUSPAN_GUARDED_BY(mutex);
  std::map<std::uint64_t, OwnedObject> objects CUSPAN_GUARDED_BY(mutex);
  // Calls the destructors of user objects.
  HostCallThread destructors;
};

// Calls body(GraphTable&) → Error without its mutex. Graphs belong to no device, but they need a
// session, which is started if necessary.
template <typename Body>
Error WithGraphTable(Body&& body) {
  CUresult result = CUDA_SUCCESS;
  Session* session = Session::IfStarted();
  if (session == nullptr) session = StartedSession(&result);
  return session != nullptr ? body(session->TableOf<GraphTable>()) : Error(result);
}

// Calls use(Graphs&) → Error with GraphTable::mutex held.
template <typename Use>
Error WithGraphs(Use&& use) {
  CUSPAN_RETURN_IF_FAILED(CheckMayCall());
  return WithGraphTable([&](GraphTable& table) -> Error {
    const MutexLock lock(table.mutex);
    return use(table.graphs);
  });
}
// Same with use(Graphs&, const std::shared_ptr<Graph>&). CUDA_ERROR_INVALID_VALUE for unknown
// handles, here and below.
template <typename Use>
Error WithGraph(CUgraph graph, Use&& use) {
  return WithGraphs([&](Graphs& graphs) -> Error {
    const std::shared_ptr<Graph> found = graphs.Find(graph);
    return found != nullptr ? Error(use(graphs, found)) : Error(CUDA_ERROR_INVALID_VALUE);
  });
}
// Same with use(Graphs&, const NodeInGraph&).
template <typename Use>
Error WithNode(CUgraphNode node, Use&& use) {
  return WithGraphs([&](Graphs& graphs) -> Error {
    const NodeInGraph found = graphs.Find(node);
    return found.node != nullptr ? Error(use(graphs, found)) : Error(CUDA_ERROR_INVALID_VALUE);
  });
}
// Same with use(Graphs&, GraphExec&).
template <typename Use>
Error WithExec(CUgraphExec exec, Use&& use) {
  return WithGraphs([&](Graphs& graphs) -> Error {
    const std::shared_ptr<GraphExec> found = graphs.Find(exec);
    return found != nullptr ? Error(use(graphs, *found)) : Error(CUDA_ERROR_INVALID_VALUE);
  });
}

}  // namespace cuspan

#include "interpose/calls/graph/capture.h"

#include <algorithm>
#include <unordered_map>

#include "interpose/client/base/handles.h"
#include "interpose/client/base/thread_state.h"

namespace cuspan {

struct Capture {
  unsigned long long id = 0;
  std::shared_ptr<Graph> graph;
  bool own_graph = true;     // Made by the capture, not by the program.
  std::uint64_t origin = 0;  // Stream it began in.
  std::uint32_t thread = 0;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  bool invalid = false;
  // Dependencies of the next node, by stream.
  std::map<std::uint64_t, std::vector<GraphNode*>> streams;
};

namespace {

GraphTable& TableOfGraphs(Session& session) { return session.TableOf<GraphTable>(); }

std::shared_ptr<Capture> FindCapture(const GraphTable& table, std::uint64_t stream)
    CUSPAN_REQUIRES(table.mutex) {
  const auto known = table.capturing.find(stream);
  return known == table.capturing.end() ? nullptr : known->second.capture;
}

// Returns the capture with the event's latest record, or null.
std::shared_ptr<Capture> CaptureOfRecord(const GraphTable& table, CUevent event)
    CUSPAN_REQUIRES(table.mutex) {
  const auto record = table.records.find(NumberOf(event));
  return record == table.records.end() ? nullptr : record->second.capture.lock();
}

// True if the capture forbids unsafe calls to this thread. The capture's mode sets the rule; the
// thread's own mode may relax it.
bool Forbids(const Capture& capture) {
  const ThreadState& thread = ThisThread();
  const bool own = capture.thread == thread.number;
  switch (thread.capture_mode) {
    case CU_STREAM_CAPTURE_MODE_GLOBAL:
      return own ? capture.mode != CU_STREAM_CAPTURE_MODE_RELAXED
                 : capture.mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    case CU_STREAM_CAPTURE_MODE_THREAD_LOCAL:
      return own && capture.mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    default:
      return false;
  }
}

void CountCaptures(Session& session, const GraphTable& table) CUSPAN_REQUIRES(table.mutex) {
  session.capturing_streams().store(table.capturing.size(), std::memory_order_release);
}

void Join(Session& session, GraphTable& table, const StreamTarget& target,
          std::shared_ptr<Capture> capture) CUSPAN_REQUIRES(table.mutex) {
  const auto made = session.streams().Find(target.stream);
  table.capturing[target.stream] = {std::move(capture), target.connection->number(),
                                    made != nullptr,
                                    made == nullptr || (made->flags & CU_STREAM_NON_BLOCKING) == 0};
  CountCaptures(session, table);
}

// Removes the capture's streams and records.
void Leave(Session& session, GraphTable& table, const std::shared_ptr<Capture>& capture)
    CUSPAN_REQUIRES(table.mutex) {
  std::erase_if(table.capturing,
                [&](const auto& entry) { return entry.second.capture == capture; });
  std::erase_if(table.records,
                [&](const auto& entry) { return entry.second.capture.lock() == capture; });
  CountCaptures(session, table);
}

// Removes streams destroyed alone or with their contexts. If the origin of a capture is destroyed,
// removes the capture, since it cannot be ended.
void ForgetGone(Session& session, GraphTable& table) CUSPAN_REQUIRES(table.mutex) {
  std::vector<std::shared_ptr<Capture>> ended;
  std::erase_if(table.capturing, [&](const auto& entry) {
    const auto& [stream, capturing] = entry;
    const bool alive = session.devices().ConnectionNumbered(capturing.connection) != nullptr;
    if (alive && (!capturing.made_by_program || session.streams().Find(stream) != nullptr))
      return false;
    capturing.capture->invalid = capturing.capture->invalid || !alive;
    if (stream == capturing.capture->origin) ended.push_back(capturing.capture);
    return true;
  });
  CountCaptures(session, table);
  for (const auto& capture : ended) {
    Leave(session, table, capture);
    if (capture->own_graph) table.graphs.Destroy(capture->graph->handle);
  }
}

// The legacy stream synchronizes with blocking streams; captures cannot record this. Its use
// invalidates their captures, except relaxed ones and other threads' thread-local ones.
Error RefuseLegacy(const GraphTable& table) CUSPAN_REQUIRES(table.mutex) {
  bool refused = false;
  for (const auto& [stream, capturing] : table.capturing) {
    const auto& capture = capturing.capture;
    if (!capturing.blocking) continue;
    if (capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED ||
        (capture->mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL &&
         capture->thread != ThisThread().number)) {
      continue;
    }
    capture->invalid = true;
    refused = true;
  }
  return refused ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_SUCCESS;
}

// Finds the capture of calls into `target`; null if it is not capturing.
Error CaptureFor(Session& session, GraphTable& table, const StreamTarget& target,
                 std::shared_ptr<Capture>* capture) CUSPAN_REQUIRES(table.mutex) {
  ForgetGone(session, table);
  *capture = FindCapture(table, target.stream);
  if (*capture == nullptr) return target.stream == 0 ? RefuseLegacy(table) : CUDA_SUCCESS;
  return (*capture)->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
}

void Merge(std::vector<GraphNode*>& into, const std::vector<GraphNode*>& nodes) {
  for (GraphNode* node : nodes)
    if (std::find(into.begin(), into.end(), node) == into.end()) into.push_back(node);
}

GraphNode* AddNode(Graphs& graphs, Capture& capture, std::uint64_t stream, Work work, int device) {
  GraphNode* const node = capture.graph->Add(std::move(work), capture.streams[stream], device);
  graphs.Name(capture.graph, node);
  capture.streams[stream] = {node};
  return node;
}

Error Begin(Session& session, GraphTable& table, const StreamTarget& target,
            CUstreamCaptureMode mode, std::shared_ptr<Graph> graph,
            std::vector<GraphNode*> dependencies) CUSPAN_REQUIRES(table.mutex) {
  if (mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_ERROR_INVALID_VALUE;
  if (target.stream == 0) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (FindCapture(table, target.stream) != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  auto capture = std::make_shared<Capture>();
  capture->id = NextHandle();
  capture->own_graph = graph == nullptr;
  capture->graph = graph != nullptr ? std::move(graph) : table.graphs.Create();
  capture->origin = target.stream;
  capture->thread = ThisThread().number;
  capture->mode = mode;
  capture->streams[target.stream] = std::move(dependencies);
  Join(session, table, target, std::move(capture));
  return CUDA_SUCCESS;
}

// True if the origin has waited for all joined streams: all their last nodes precede its own.
bool AllJoined(const Capture& capture) {
  const std::set<const GraphNode*> before = WithAncestors(capture.streams.at(capture.origin));
  for (const auto& [stream, nodes] : capture.streams)
    for (const GraphNode* node : nodes)
      if (!before.contains(node)) return false;
  return true;
}

// If `graph` is null, the program's graph stays; one made by the capture is destroyed, since it
// would have no user.
Error End(Session& session, GraphTable& table, const StreamTarget& target, CUgraph* graph)
    CUSPAN_REQUIRES(table.mutex) {
  if (graph != nullptr) *graph = nullptr;
  const std::shared_ptr<Capture> capture = FindCapture(table, target.stream);
  if (capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->origin != target.stream) {
    capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  }
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != ThisThread().number)
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  Leave(session, table, capture);
  const Error result = capture->invalid       ? Error(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)
                       : !AllJoined(*capture) ? Error(CUDA_ERROR_STREAM_CAPTURE_UNJOINED)
                                              : Error(CUDA_SUCCESS);
  if (capture->own_graph && (result.failed() || graph == nullptr))
    table.graphs.Destroy(capture->graph->handle);
  else if (graph != nullptr && !result.failed())
    *graph = HandleOf(*capture->graph);
  return result;
}

// Calls use(Session&, GraphTable&, const StreamTarget&) → Error with the table's mutex held.
template <typename Use>
Error AboutCapture(CUstream stream, DefaultStream meaning, Use&& use) {
  return WithSession([&](Session& session) -> Error {
    StreamTarget target;
    CUSPAN_RETURN_IF_FAILED(session.streams().Resolve(stream, meaning, &target));
    GraphTable& table = TableOfGraphs(session);
    const MutexLock lock(table.mutex);
    // Called by name: for a call with (), clang 16 compares the mutex of the wrong argument.
    return use.operator()(session, table, target);
  });
}

// Finds nodes by their handles; they must be in `graph`.
Error FindNodes(Graphs& graphs, const Graph& graph, const CUgraphNode* nodes, std::size_t count,
                std::vector<GraphNode*>* found) {
  if (nodes == nullptr && count != 0) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < count; ++i) {
    const NodeInGraph place = graphs.Find(nodes[i]);
    if (place.node == nullptr || place.graph.get() != &graph) return CUDA_ERROR_INVALID_VALUE;
    found->push_back(place.node);
  }
  return CUDA_SUCCESS;
}

Error UpdateDependencies(GraphTable& table, const StreamTarget& target, const CUgraphNode* nodes,
                         std::size_t count, unsigned flags) CUSPAN_REQUIRES(table.mutex) {
  const std::shared_ptr<Capture> capture = FindCapture(table, target.stream);
  if (capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES) return CUDA_ERROR_INVALID_VALUE;
  std::vector<GraphNode*> found;
  CUSPAN_RETURN_IF_FAILED(FindNodes(table.graphs, *capture->graph, nodes, count, &found));
  std::vector<GraphNode*>& dependencies = capture->streams[target.stream];
  if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) dependencies.clear();
  Merge(dependencies, found);
  return CUDA_SUCCESS;
}

}  // namespace

Error RefuseCapture(Session& session, const StreamTarget& target) {
  GraphTable& table = TableOfGraphs(session);
  const MutexLock lock(table.mutex);
  std::shared_ptr<Capture> capture;
  CUSPAN_RETURN_IF_FAILED(CaptureFor(session, table, target, &capture));
  if (capture == nullptr) return CUDA_SUCCESS;
  capture->invalid = true;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

Error RefuseCaptureOnDevice(Session& session, int device) {
  GraphTable& table = TableOfGraphs(session);
  const MutexLock lock(table.mutex);
  ForgetGone(session, table);
  bool refused = false;
  for (const auto& [stream, capturing] : table.capturing) {
    const auto connection = session.devices().ConnectionNumbered(capturing.connection);
    if (connection == nullptr || connection->device() != device) continue;
    capturing.capture->invalid = true;
    refused = true;
  }
  return refused ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

Error RefuseUnsafe(Session& session) {
  GraphTable& table = TableOfGraphs(session);
  const MutexLock lock(table.mutex);
  ForgetGone(session, table);
  bool refused = false;
  for (const auto& [stream, capturing] : table.capturing) {
    if (!Forbids(*capturing.capture)) continue;
    capturing.capture->invalid = true;
    refused = true;
  }
  return refused ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

Error CaptureWork(Session& session, const StreamTarget& target, const MakeWork& make_work,
                  bool* captured) {
  *captured = false;
  GraphTable& table = TableOfGraphs(session);
  const MutexLock lock(table.mutex);
  std::shared_ptr<Capture> capture;
  CUSPAN_RETURN_IF_FAILED(CaptureFor(session, table, target, &capture));
  if (capture == nullptr) return CUDA_SUCCESS;
  Work work;
  const NewNode place{table.graphs, capture->graph, capture->streams[target.stream]};
  if (const Described described = make_work(place, &work); described.error.failed()) {
    capture->invalid = capture->invalid || described.ends_capture;
    return described.error;
  }
  AddNode(table.graphs, *capture, target.stream, std::move(work), target.connection->device());
  *captured = true;
  return CUDA_SUCCESS;
}

Error CaptureRecord(Session& session, const StreamTarget& target, CUevent event, bool* captured) {
  *captured = false;
  GraphTable& table = TableOfGraphs(session);
  const MutexLock lock(table.mutex);
  std::shared_ptr<Capture> capture;
  CUSPAN_RETURN_IF_FAILED(CaptureFor(session, table, target, &capture));
  if (capture == nullptr) {
    table.records.erase(NumberOf(event));
    return CUDA_SUCCESS;
  }
  table.records[NumberOf(event)] = {capture, capture->streams[target.stream]};
  *captured = true;
  return CUDA_SUCCESS;
}

Error CaptureWait(Session& session, const StreamTarget& target, CUevent event, bool* captured) {
  *captured = false;
  GraphTable& table = TableOfGraphs(session);
  const MutexLock lock(table.mutex);
  std::shared_ptr<Capture> capture;
  CUSPAN_RETURN_IF_FAILED(CaptureFor(session, table, target, &capture));
  const auto record = table.records.find(NumberOf(event));
  const std::shared_ptr<Capture> recorded =
      record == table.records.end() ? nullptr : record->second.capture.lock();
  if (recorded == nullptr) {
    if (capture == nullptr) return CUDA_SUCCESS;
    // Work outside a capture cannot precede its nodes.
    capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  if (capture != nullptr && capture != recorded) {
    capture->invalid = true;
    recorded->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  if (target.stream == 0) {
    recorded->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  // If the stream was not capturing, it joins.
  Merge(recorded->streams[target.stream], record->second.nodes);
  Join(session, table, target, recorded);
  *captured = true;
  return CUDA_SUCCESS;
}

bool IsCaptured(Session& session, CUevent event) {
  if (!AnyCapture(session)) return false;
  const GraphTable& table = TableOfGraphs(session);
  const MutexLock lock(table.mutex);
  return CaptureOfRecord(table, event) != nullptr;
}

Error RefuseCapturedEvent(Session& session, CUevent event) {
  if (!AnyCapture(session)) return CUDA_SUCCESS;
  const GraphTable& table = TableOfGraphs(session);
  const MutexLock lock(table.mutex);
  const std::shared_ptr<Capture> capture = CaptureOfRecord(table, event);
  if (capture == nullptr) return CUDA_SUCCESS;
  capture->invalid = true;
  return CUDA_ERROR_CAPTURED_EVENT;
}

CaptureState CaptureOf(const StreamTarget& target) {
  CaptureState out;
  Session* const session = Session::IfStarted();
  if (session == nullptr || !AnyCapture(*session)) return out;
  const GraphTable& table = TableOfGraphs(*session);
  const MutexLock lock(table.mutex);
  const std::shared_ptr<Capture> capture = FindCapture(table, target.stream);
  if (capture == nullptr) return out;
  out.status =
      capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  out.id = capture->id;
  out.graph = HandleOf(*capture->graph);
  for (const GraphNode* node : capture->streams[target.stream])
    out.dependencies.push_back(HandleOf(*node));
  return out;
}

Error BeginCapture(CUstream stream, DefaultStream meaning, CUstreamCaptureMode mode) {
  return AboutCapture(stream, meaning,
                      [&](Session& session, GraphTable& table, const StreamTarget& target)
                          CUSPAN_REQUIRES(table.mutex) {
                            return Begin(session, table, target, mode, nullptr, {});
                          });
}

Error BeginCaptureToGraph(CUstream stream, DefaultStream meaning, CUgraph graph,
                          const CUgraphNode* dependencies, std::size_t count,
                          CUstreamCaptureMode mode) {
  return AboutCapture(
      stream, meaning,
      [&](Session& session, GraphTable& table, const StreamTarget& target)
          CUSPAN_REQUIRES(table.mutex) -> Error {
            std::shared_ptr<Graph> found = table.graphs.Find(graph);
            if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
            std::vector<GraphNode*> nodes;
            CUSPAN_RETURN_IF_FAILED(FindNodes(table.graphs, *found, dependencies, count, &nodes));
            return Begin(session, table, target, mode, std::move(found), std::move(nodes));
          });
}

Error EndCapture(CUstream stream, DefaultStream meaning, CUgraph* graph) {
  return AboutCapture(
      stream, meaning,
      [&](Session& session, GraphTable& table, const StreamTarget& target)
          CUSPAN_REQUIRES(table.mutex) { return End(session, table, target, graph); });
}

Error UpdateCaptureDependencies(CUstream stream, DefaultStream meaning,
                                const CUgraphNode* dependencies, std::size_t count,
                                unsigned flags) {
  return AboutCapture(stream, meaning,
                      [&](Session&, GraphTable& table, const StreamTarget& target)
                          CUSPAN_REQUIRES(table.mutex) {
                            return UpdateDependencies(table, target, dependencies, count, flags);
                          });
}

}  // namespace cuspan

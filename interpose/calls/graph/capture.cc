#include "interpose/calls/graph/capture.h"

#include <algorithm>
#include <unordered_map>

#include "interpose/client/base/handles.h"
#include "interpose/client/base/thread_state.h"

namespace cuspan {
namespace {

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

// Guarded by Graphs::mutex.
struct State {
  std::unordered_map<std::uint64_t, CapturingStream> by_stream;
  std::unordered_map<std::uint64_t, CapturedRecord> records;  // Indexed by event.
};

State& TheState() {
  static auto* const state = new State;  // Never destroyed, like the session.
  return *state;
}

std::shared_ptr<Capture> FindCapture(std::uint64_t stream) {
  const State& state = TheState();
  const auto known = state.by_stream.find(stream);
  return known == state.by_stream.end() ? nullptr : known->second.capture;
}

// Returns the capture with the event's latest record, or null.
std::shared_ptr<Capture> CaptureOfRecord(CUevent event) {
  const auto record = TheState().records.find(NumberOf(event));
  return record == TheState().records.end() ? nullptr : record->second.capture.lock();
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

void CountCaptures() {
  captures_active.store(static_cast<int>(TheState().by_stream.size()), std::memory_order_release);
}

void Join(const Session& session, const StreamTarget& target, std::shared_ptr<Capture> capture) {
  const auto made = session.streams().Find(target.stream);
  TheState().by_stream[target.stream] = {
      std::move(capture), target.connection->number(), made != nullptr,
      made == nullptr || (made->flags & CU_STREAM_NON_BLOCKING) == 0};
  CountCaptures();
}

// Removes the capture's streams and records.
void Leave(const std::shared_ptr<Capture>& capture) {
  State& state = TheState();
  std::erase_if(state.by_stream,
                [&](const auto& entry) { return entry.second.capture == capture; });
  std::erase_if(state.records,
                [&](const auto& entry) { return entry.second.capture.lock() == capture; });
  CountCaptures();
}

// Removes streams destroyed alone or with their contexts. If the origin of a capture is destroyed,
// removes the capture, since it cannot be ended.
void ForgetGone(Session& session) {
  std::vector<std::shared_ptr<Capture>> ended;
  std::erase_if(TheState().by_stream, [&](const auto& entry) {
    const auto& [stream, capturing] = entry;
    const bool alive = session.devices().ConnectionNumbered(capturing.connection) != nullptr;
    if (alive && (!capturing.made_by_program || session.streams().Find(stream) != nullptr))
      return false;
    capturing.capture->invalid = capturing.capture->invalid || !alive;
    if (stream == capturing.capture->origin) ended.push_back(capturing.capture);
    return true;
  });
  CountCaptures();
  for (const auto& capture : ended) {
    Leave(capture);
    if (capture->own_graph) Graphs::Get().Destroy(capture->graph->handle);
  }
}

// The legacy stream synchronizes with blocking streams; captures cannot record this. Its use
// invalidates their captures, except relaxed ones and other threads' thread-local ones.
Error RefuseLegacy() {
  bool refused = false;
  for (const auto& [stream, capturing] : TheState().by_stream) {
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
Error CaptureFor(Session& session, const StreamTarget& target, std::shared_ptr<Capture>* capture) {
  ForgetGone(session);
  *capture = FindCapture(target.stream);
  if (*capture == nullptr) return target.stream == 0 ? RefuseLegacy() : CUDA_SUCCESS;
  return (*capture)->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
}

void Merge(std::vector<GraphNode*>& into, const std::vector<GraphNode*>& nodes) {
  for (GraphNode* node : nodes)
    if (std::find(into.begin(), into.end(), node) == into.end()) into.push_back(node);
}

GraphNode* AddNode(Capture& capture, std::uint64_t stream, Work work, int device) {
  GraphNode* const node = capture.graph->Add(std::move(work), capture.streams[stream], device);
  Graphs::Get().Name(capture.graph, node);
  capture.streams[stream] = {node};
  return node;
}

Error Begin(Session& session, const StreamTarget& target, CUstreamCaptureMode mode,
            std::shared_ptr<Graph> graph, std::vector<GraphNode*> dependencies) {
  if (mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_ERROR_INVALID_VALUE;
  if (target.stream == 0) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (FindCapture(target.stream) != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  auto capture = std::make_shared<Capture>();
  capture->id = NextHandle();
  capture->own_graph = graph == nullptr;
  capture->graph = graph != nullptr ? std::move(graph) : Graphs::Get().Create();
  capture->origin = target.stream;
  capture->thread = ThisThread().number;
  capture->mode = mode;
  capture->streams[target.stream] = std::move(dependencies);
  Join(session, target, std::move(capture));
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
Error End(const StreamTarget& target, CUgraph* graph) {
  if (graph != nullptr) *graph = nullptr;
  const std::shared_ptr<Capture> capture = FindCapture(target.stream);
  if (capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->origin != target.stream) {
    capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  }
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != ThisThread().number)
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  Leave(capture);
  const Error result = capture->invalid       ? Error(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)
                       : !AllJoined(*capture) ? Error(CUDA_ERROR_STREAM_CAPTURE_UNJOINED)
                                              : Error(CUDA_SUCCESS);
  if (capture->own_graph && (result.failed() || graph == nullptr))
    Graphs::Get().Destroy(capture->graph->handle);
  else if (graph != nullptr && !result.failed())
    *graph = HandleOf(*capture->graph);
  return result;
}

// Calls use(Session&, const StreamTarget&) → Error with Graphs::mutex held.
template <typename Use>
Error AboutCapture(CUstream stream, DefaultStream meaning, Use&& use) {
  return WithSession([&](Session& session) -> Error {
    StreamTarget target;
    CUSPAN_RETURN_IF_FAILED(session.streams().Resolve(stream, meaning, &target));
    std::lock_guard lock(Graphs::Get().mutex);
    return use(session, target);
  });
}

// Finds nodes by their handles; they must be in `graph`.
Error FindNodes(const Graph& graph, const CUgraphNode* nodes, std::size_t count,
                std::vector<GraphNode*>* found) {
  if (nodes == nullptr && count != 0) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < count; ++i) {
    const Graphs::Place place = Graphs::Get().Find(nodes[i]);
    if (place.node == nullptr || place.graph.get() != &graph) return CUDA_ERROR_INVALID_VALUE;
    found->push_back(place.node);
  }
  return CUDA_SUCCESS;
}

Error UpdateDependencies(const StreamTarget& target, const CUgraphNode* nodes, std::size_t count,
                         unsigned flags) {
  const std::shared_ptr<Capture> capture = FindCapture(target.stream);
  if (capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES) return CUDA_ERROR_INVALID_VALUE;
  std::vector<GraphNode*> found;
  CUSPAN_RETURN_IF_FAILED(FindNodes(*capture->graph, nodes, count, &found));
  std::vector<GraphNode*>& dependencies = capture->streams[target.stream];
  if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) dependencies.clear();
  Merge(dependencies, found);
  return CUDA_SUCCESS;
}

}  // namespace

constinit std::atomic<int> captures_active{0};

Error RefuseCapture(Session& session, const StreamTarget& target) {
  std::lock_guard lock(Graphs::Get().mutex);
  std::shared_ptr<Capture> capture;
  CUSPAN_RETURN_IF_FAILED(CaptureFor(session, target, &capture));
  if (capture == nullptr) return CUDA_SUCCESS;
  capture->invalid = true;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

Error RefuseCaptureOnDevice(Session& session, int device) {
  std::lock_guard lock(Graphs::Get().mutex);
  ForgetGone(session);
  bool refused = false;
  for (const auto& [stream, capturing] : TheState().by_stream) {
    const auto connection = session.devices().ConnectionNumbered(capturing.connection);
    if (connection == nullptr || connection->device() != device) continue;
    capturing.capture->invalid = true;
    refused = true;
  }
  return refused ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

Error RefuseUnsafe() {
  Session* const session = Session::IfStarted();
  if (session == nullptr) return CUDA_SUCCESS;
  std::lock_guard lock(Graphs::Get().mutex);
  ForgetGone(*session);
  bool refused = false;
  for (const auto& [stream, capturing] : TheState().by_stream) {
    if (!Forbids(*capturing.capture)) continue;
    capturing.capture->invalid = true;
    refused = true;
  }
  return refused ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

Error CaptureWork(Session& session, const StreamTarget& target, const MakeWork& make_work,
                  bool* captured) {
  *captured = false;
  std::lock_guard lock(Graphs::Get().mutex);
  std::shared_ptr<Capture> capture;
  CUSPAN_RETURN_IF_FAILED(CaptureFor(session, target, &capture));
  if (capture == nullptr) return CUDA_SUCCESS;
  Work work;
  const NewNode place{capture->graph, capture->streams[target.stream]};
  if (const Described described = make_work(place, &work); described.error.failed()) {
    capture->invalid = capture->invalid || described.ends_capture;
    return described.error;
  }
  AddNode(*capture, target.stream, std::move(work), target.connection->device());
  *captured = true;
  return CUDA_SUCCESS;
}

Error CaptureRecord(Session& session, const StreamTarget& target, CUevent event, bool* captured) {
  *captured = false;
  std::lock_guard lock(Graphs::Get().mutex);
  std::shared_ptr<Capture> capture;
  CUSPAN_RETURN_IF_FAILED(CaptureFor(session, target, &capture));
  State& state = TheState();
  if (capture == nullptr) {
    state.records.erase(NumberOf(event));
    return CUDA_SUCCESS;
  }
  state.records[NumberOf(event)] = {capture, capture->streams[target.stream]};
  *captured = true;
  return CUDA_SUCCESS;
}

Error CaptureWait(Session& session, const StreamTarget& target, CUevent event, bool* captured) {
  *captured = false;
  std::lock_guard lock(Graphs::Get().mutex);
  std::shared_ptr<Capture> capture;
  CUSPAN_RETURN_IF_FAILED(CaptureFor(session, target, &capture));
  State& state = TheState();
  const auto record = state.records.find(NumberOf(event));
  const std::shared_ptr<Capture> recorded =
      record == state.records.end() ? nullptr : record->second.capture.lock();
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
  Join(session, target, recorded);
  *captured = true;
  return CUDA_SUCCESS;
}

bool IsCaptured(CUevent event) {
  if (!AnyCapture()) return false;
  std::lock_guard lock(Graphs::Get().mutex);
  return CaptureOfRecord(event) != nullptr;
}

Error RefuseCapturedEvent(CUevent event) {
  if (!AnyCapture()) return CUDA_SUCCESS;
  std::lock_guard lock(Graphs::Get().mutex);
  const std::shared_ptr<Capture> capture = CaptureOfRecord(event);
  if (capture == nullptr) return CUDA_SUCCESS;
  capture->invalid = true;
  return CUDA_ERROR_CAPTURED_EVENT;
}

CaptureState CaptureOf(const StreamTarget& target) {
  CaptureState out;
  if (!AnyCapture()) return out;
  std::lock_guard lock(Graphs::Get().mutex);
  const std::shared_ptr<Capture> capture = FindCapture(target.stream);
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
  return AboutCapture(stream, meaning, [&](Session& session, const StreamTarget& target) {
    return Begin(session, target, mode, nullptr, {});
  });
}

Error BeginCaptureToGraph(CUstream stream, DefaultStream meaning, CUgraph graph,
                          const CUgraphNode* dependencies, std::size_t count,
                          CUstreamCaptureMode mode) {
  return AboutCapture(stream, meaning, [&](Session& session, const StreamTarget& target) -> Error {
    std::shared_ptr<Graph> found = Graphs::Get().Find(graph);
    if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::vector<GraphNode*> nodes;
    CUSPAN_RETURN_IF_FAILED(FindNodes(*found, dependencies, count, &nodes));
    return Begin(session, target, mode, std::move(found), std::move(nodes));
  });
}

Error EndCapture(CUstream stream, DefaultStream meaning, CUgraph* graph) {
  return AboutCapture(stream, meaning,
                      [&](Session&, const StreamTarget& target) { return End(target, graph); });
}

Error UpdateCaptureDependencies(CUstream stream, DefaultStream meaning,
                                const CUgraphNode* dependencies, std::size_t count,
                                unsigned flags) {
  return AboutCapture(stream, meaning, [&](Session&, const StreamTarget& target) {
    return UpdateDependencies(target, dependencies, count, flags);
  });
}

}  // namespace cuspan

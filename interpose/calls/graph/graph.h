// Graphs as built by the program: nodes, their work, and their edges. They are kept in the client.
// A launch posts the nodes' work to streams in an order allowed by the edges (execution/run.h). The
// device has graphs of its own: for repeated launches (execution/device_exec.h), and for
// conditional nodes, since it decides itself about their bodies (execution/device_graph.h).
//
// Handles are numbers (NextHandle) representing the objects. One mutex guards all graphs
// (graph_table.h): CUDA programs may use a graph from one thread at a time only.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "common/mutex.h"
#include "interpose/calls/base/ways_in.h"
#include "interpose/calls/graph/work.h"

namespace cuspan {

struct GraphExec;
class UserObject;
class DeviceGraph;
class DeviceGraphExec;

// --- Structure

struct GraphNode {
  std::uint64_t handle = 0;
  std::uint64_t origin = 0;  // Handle of the node it was cloned from.
  int device = 0;            // Current device at the node's creation.
  Work work;
  bool enabled = true;                   // Used in execs only.
  std::vector<GraphNode*> dependencies;  // Nodes of the same graph.

  // Returns a copy of the bytes for the program, owned by the node and valid until the node is
  // destroyed. The program may change it and pass it back any number of times. Calls with the same
  // `index` and size return the same buffer.
  void* Expose(std::size_t index, std::span<const std::byte> bytes);
  // Same for a list of pointers to the kernel's arguments.
  void** ExposeArguments(const KernelWork& kernel);

 private:
  std::map<std::pair<std::size_t, std::size_t>, std::unique_ptr<std::byte[]>> exposed_;
};

struct Graph {
  std::uint64_t handle = 0;
  std::vector<std::unique_ptr<GraphNode>> nodes;  // Sorted by creation.
  // True if it belongs to a node or an exec. The program cannot destroy or instantiate it, make it
  // another node's, or add memory nodes to it (measured, 580).
  bool child = false;
  // User objects kept by it and its clones, and reference counts (user_objects.cc).
  std::map<std::shared_ptr<UserObject>, unsigned> objects;
  std::weak_ptr<GraphExec> exec;  // Its exec, if the graph has memory nodes.
  // Null for graphs without conditions, except bodies of conditional nodes.
  std::shared_ptr<DeviceGraph> on_device;

  GraphNode* Add(Work work, std::vector<GraphNode*> dependencies, int device);
};

// A part of a launch, run after the parts before it.
struct GraphPart {
  std::vector<GraphNode*> nodes;               // Topological order.
  std::shared_ptr<DeviceGraphExec> on_device;  // Null: the client posts the nodes.
};

// An instantiated graph: a clone of the program's graph.
struct GraphExec {
  std::uint64_t handle = 0;
  std::shared_ptr<Graph> graph;
  std::vector<GraphPart> parts;
  bool launched = false;                  // Since `parts` was rebuilt.
  bool recorded = false;                  // Recording on the device was tried.
  std::vector<const GraphNode*> changed;  // Nodes with new work not sent yet.
  std::uint64_t registry_version = 0;     // Registry version at the last check of its kernels.
  MemoryLeft left;                        // Left by each launch.
  bool stale = false;                     // `parts` must be rebuilt.
  unsigned long long flags = 0;
  Mutex launching;
  // Stream of the last launch; launches of one exec do not overlap.
  StreamTarget last CUSPAN_GUARDED_BY(launching);
  // Event after it, if it was in a thread's default stream.
  std::uint64_t end_event CUSPAN_GUARDED_BY(launching) = 0;
};

// A node and its graph; both null if unknown.
struct NodeInGraph {
  std::shared_ptr<Graph> graph;
  GraphNode* node = nullptr;
};

// All graphs of a session. Threads: any, with GraphTable::mutex held.
class Graphs {
 public:
  std::shared_ptr<Graph> Create();
  std::shared_ptr<Graph> Clone(const Graph& graph);
  std::shared_ptr<Graph> Find(CUgraph graph);
  NodeInGraph Find(CUgraphNode node);
  void Destroy(std::uint64_t graph);
  void DestroyNode(const NodeInGraph& place);

  void Add(std::shared_ptr<GraphExec> exec);
  std::shared_ptr<GraphExec> Find(CUgraphExec exec);
  bool Destroy(CUgraphExec exec);

  // Destroys the graphs belonging to a node.
  void DestroyPartsOf(const GraphNode& node);
  // Adds the new node's handle for Find.
  void Name(const std::shared_ptr<Graph>& graph, GraphNode* node);

 private:
  std::map<std::uint64_t, std::shared_ptr<Graph>> graphs_;
  std::map<std::uint64_t, NodeInGraph> nodes_;
  std::map<std::uint64_t, std::shared_ptr<GraphExec>> execs_;
};

// Position of a new node: its graph and its dependencies.
struct NewNode {
  Graphs& graphs;
  const std::shared_ptr<Graph>& graph;
  const std::vector<GraphNode*>& dependencies;
};
// Returns these nodes and all they depend on.
std::set<const GraphNode*> WithAncestors(const std::vector<GraphNode*>& nodes);

// True if the node, or one in a child graph, waits for a value in memory.
bool WaitsForValue(const GraphNode& node);

// Returns the nodes in topological order; nullopt for a cycle. A node waiting for a value in memory
// comes as late as possible: an independent node may write the value.
std::optional<std::vector<GraphNode*>> InOrder(const Graph& graph);

inline CUgraphNode HandleOf(const GraphNode& node) { return HandleOf<CUgraphNode>(node.handle); }
inline CUgraph HandleOf(const Graph& graph) { return HandleOf<CUgraph>(graph.handle); }

}  // namespace cuspan

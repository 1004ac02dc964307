// Graphs as the program builds them: nodes, what they do, and their edges. They
// live in the client; a launch hands the nodes' operations to the streams in an
// order that the edges allow (run.cc). The device has graphs of its own: of what is launched again
// (device_exec.h), and where it decides itself what comes next, at conditional nodes
// (device_graph.h).
//
// Handles are numbers (NextHandle) that stand for the objects. One mutex guards
// all graphs: CUDA lets a program use a graph from one thread at a time only.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "interpose/calls/copy_box.h"
#include "interpose/calls/ways_in.h"
#include "interpose/client/base/registry.h"
#include "interpose/client/host_calls.h"

namespace cuspan {

struct Graph;
struct GraphExec;
class UserObject;
class DeviceGraph;
class DeviceGraphExec;

// --- What a node does.

struct KernelWork {
  std::shared_ptr<const FunctionRecord> function;
  Dim3 grid, block;
  unsigned dynamic_shared = 0;
  bool cooperative = false;
  Dim3 cluster;
  std::vector<std::vector<std::byte>> arguments;
  std::map<CUlaunchAttributeID, CUlaunchAttributeValue> hints;  // Attributes kept, not used.

  void TakeAttributes(const KernelWork& other) {
    cooperative = other.cooperative;
    cluster = other.cluster;
    hints = other.hints;
  }
};
// Any copy: one of a run is a box of one row.
struct CopyWork {
  BoxRequest box;
};
struct SetWork {
  CUDA_MEMSET_NODE_PARAMS parameters{};
};
struct HostWork {
  HostFunction call;
};
struct ChildWork {
  std::shared_ptr<Graph> graph;
};
struct EmptyWork {};
struct WaitWork {
  CUevent event = nullptr;
};
struct RecordWork {
  CUevent event = nullptr;
};
// The memory is there from when the node is made until the graph and what was
// made of it are gone, and the program has freed what a launch left it; so its address is the same
// at each launch. Nodes that allocate after it was freed in the graph share it.
struct GraphMemory {
  int device = 0;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint64_t connection_number = 0;
  // Fails when the device has no room (memory_nodes.cc).
  Error Allocate(Session& session, int on, std::uint64_t size);
  ~GraphMemory();
};
struct AllocateWork {
  CUDA_MEM_ALLOC_NODE_PARAMS parameters{};  // With the address.
  std::shared_ptr<GraphMemory> memory;
};
struct FreeWork {
  void* memory = nullptr;
};
// What the program has after a launch, and what it has no more.
struct MemoryLeft {
  std::vector<std::shared_ptr<GraphMemory>> allocated;
  std::vector<std::uint64_t> freed;
};
// Waits for values in memory and writes of them, one after the other (calls/memory_batch.h).
struct MemoryBatchWork {
  CUcontext context = nullptr;  // As the program named it.
  int device = 0;               // Of that context.
  std::vector<CUstreamBatchMemOpParams> operations;
};
// A group of NCCL's calls for one device (calls/collective.h).
struct CollectiveWork {
  std::uint64_t connection = 0;  // The life of the context that has the communicators.
  int device = 0;                // Of that context.
  std::vector<CollectiveCall> calls;
};
// Runs one of its bodies, none, or one again and again, by a number that kernels set.
struct ConditionWork {
  std::uint64_t condition = 0;  // The device's name for the number.
  CUgraphConditionalNodeType kind{};
  std::vector<std::shared_ptr<Graph>> bodies;
  std::shared_ptr<std::vector<CUgraph>> handles;  // Theirs, as the program reads them.
};
// In the order of CUgraphNodeType, without semaphores; what NCCL does is natively kernels.
using Work = std::variant<KernelWork, CopyWork, SetWork, HostWork, ChildWork, EmptyWork, WaitWork,
                          RecordWork, AllocateWork, FreeWork, MemoryBatchWork, ConditionWork,
                          CollectiveWork>;

CUgraphNodeType TypeOf(const Work& work);

// --- Structure.

struct GraphNode {
  std::uint64_t handle = 0;
  std::uint64_t origin = 0;  // The node of the graph that this one's graph was cloned from.
  int device = 0;            // Current when the node was made.
  Work work;
  bool enabled = true;                   // Of graphs to be launched.
  std::vector<GraphNode*> dependencies;  // Of the same graph.

  // Memory of the node with these bytes, for the program, which may change them and give them back
  // as often as it likes: good until the node is destroyed. It is the same for each `index` and
  // size.
  void* Tell(std::size_t index, std::span<const std::byte> bytes);
  // The same for a list of pointers to the arguments of its kernel.
  void** TellArguments(const KernelWork& kernel);

 private:
  std::map<std::pair<std::size_t, std::size_t>, std::unique_ptr<std::byte[]>> told_;
};

struct Graph {
  std::uint64_t handle = 0;
  std::vector<std::unique_ptr<GraphNode>> nodes;  // In the order in which they were made.
  // Belongs to a node, or is an exec's. The program can not destroy or instantiate it, nor make it
  // another node's, nor add nodes of memory (measured, 580).
  bool child = false;
  // What the program gave it to keep, and how often (user_objects.cc); its clones keep it, too.
  std::map<std::shared_ptr<UserObject>, unsigned> objects;
  std::weak_ptr<GraphExec> exec;  // The one made of it, where it has nodes of memory.
  // Of a graph with conditions, and of the bodies of its conditional nodes.
  std::shared_ptr<DeviceGraph> on_device;

  GraphNode* Add(Work work, std::vector<GraphNode*> dependencies, int device);
};

// A piece of what a launch does, behind the pieces before it.
struct GraphPart {
  std::vector<GraphNode*> nodes;               // Each behind those that it depends on.
  std::shared_ptr<DeviceGraphExec> on_device;  // Null: the client hands over the nodes.
};

// What a program instantiated: a clone of its graph.
struct GraphExec {
  std::uint64_t handle = 0;
  std::shared_ptr<Graph> graph;
  std::vector<GraphPart> parts;
  bool launched = false;                  // Since `parts` was made anew.
  bool given = false;                     // The device was given what it takes.
  std::vector<const GraphNode*> changed;  // Whose new work the device is to be told of.
  std::uint64_t registry_version = 0;     // The registry's, when it had all kernels of the graph.
  MemoryLeft left;                        // By each launch.
  bool stale = false;                     // `parts` is to be made anew.
  unsigned long long flags = 0;
  std::mutex launching;
  StreamTarget last;         // Where it was launched the last time; launches of one do not overlap.
  std::uint64_t behind = 0;  // An event behind that, if the stream is a thread's own.
};

// All of the process. The functions are called with the mutex held.
class Graphs {
 public:
  static Graphs& Get();
  std::mutex mutex;

  std::shared_ptr<Graph> Create();
  std::shared_ptr<Graph> Clone(const Graph& graph);
  std::shared_ptr<Graph> Find(CUgraph graph);
  // The node and its graph; null pointers for what is none.
  struct Place {
    std::shared_ptr<Graph> graph;
    GraphNode* node = nullptr;
  };
  Place Find(CUgraphNode node);
  void Destroy(std::uint64_t graph);
  void DestroyNode(const Place& place);

  void Add(std::shared_ptr<GraphExec> exec);
  std::shared_ptr<GraphExec> Find(CUgraphExec exec);
  bool Destroy(CUgraphExec exec);

  // The graphs that belong to a node, gone with it.
  void DestroyPartsOf(const GraphNode& node);
  // The new node's handle is found by Find from then on.
  void Name(const std::shared_ptr<Graph>& graph, GraphNode* node);

 private:
  std::map<std::uint64_t, std::shared_ptr<Graph>> graphs_;
  std::map<std::uint64_t, Place> nodes_;
  std::map<std::uint64_t, std::shared_ptr<GraphExec>> execs_;
};

// Where a node is to be: its graph, and the nodes that it will depend on.
struct NewNode {
  const std::shared_ptr<Graph>& graph;
  const std::vector<GraphNode*>& dependencies;
};
// These nodes and all that they depend on.
std::set<const GraphNode*> WithAncestors(const std::vector<GraphNode*>& nodes);

// Whether the node, or one in a graph inside, waits for a value in memory.
bool WaitsForValue(const GraphNode& node);

// Nodes, each behind those that it depends on; nothing when they form a cycle. One that waits for a
// value in memory comes as late as it may: a node beside it may write the value.
std::optional<std::vector<GraphNode*>> InOrder(const Graph& graph);

inline CUgraphNode HandleOf(const GraphNode& node) { return HandleOf<CUgraphNode>(node.handle); }
inline CUgraph HandleOf(const Graph& graph) { return HandleOf<CUgraph>(graph.handle); }

// Hands the nodes' work to the stream, and, where it concerns another device, to that one in the
// stream's order; InOrder says their order. What waits for a value in memory holds up nothing but
// what depends on it (run.cc).
Error RunGraph(Session& session, const StreamTarget& target, const std::vector<GraphNode*>& order);

}  // namespace cuspan

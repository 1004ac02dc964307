// Graphs as built by the program: nodes, their work, and their edges. They are kept in the client.
// A launch posts the nodes' work to streams in an order allowed by the edges (run.cc). The device
// has graphs of its own: for repeated launches (device_exec.h), and for conditional nodes, since it
// decides itself about their bodies (device_graph.h).
//
// Handles are numbers (NextHandle) representing the objects. One mutex guards all graphs: CUDA
// programs may use a graph from one thread at a time only.
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

// --- Work of nodes

struct KernelWork {
  std::shared_ptr<const FunctionRecord> function;
  Dim3 grid, block;
  unsigned dynamic_shared = 0;
  bool cooperative = false;
  Dim3 cluster;
  std::vector<std::vector<std::byte>> arguments;
  std::map<CUlaunchAttributeID, CUlaunchAttributeValue> hints;  // Attributes stored, not used.

  void TakeAttributes(const KernelWork& other) {
    cooperative = other.cooperative;
    cluster = other.cluster;
    hints = other.hints;
  }
};
// Any copy; a contiguous one is a box of one row.
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
// Memory allocated by nodes. It is kept from the creation of the node until the graph and its execs
// are destroyed; if a launch left it to the program, also until the program's free. So its address
// is the same at each launch. Nodes allocating after its free in the graph share it.
struct GraphMemory {
  int device = 0;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint64_t connection_number = 0;
  // Fails if the device is out of memory (memory_nodes.cc).
  Error Allocate(Session& session, int on, std::uint64_t size);
  ~GraphMemory();
};
struct AllocateWork {
  CUDA_MEM_ALLOC_NODE_PARAMS parameters{};  // Including the address.
  std::shared_ptr<GraphMemory> memory;
};
struct FreeWork {
  void* memory = nullptr;
};
// Memory left to the program by a launch, and memory of the program freed by it.
struct MemoryLeft {
  std::vector<std::shared_ptr<GraphMemory>> allocated;
  std::vector<std::uint64_t> freed;
};
// Consecutive waits for values in memory, and writes of values (calls/memory_batch.h).
struct MemoryBatchWork {
  CUcontext context = nullptr;  // Handle given by the program.
  int device = 0;               // The context's device.
  std::vector<CUstreamBatchMemOpParams> operations;
};
// A group of NCCL's calls on one device (calls/collective.h).
struct CollectiveWork {
  std::uint64_t connection = 0;  // Generation of the communicators' context.
  int device = 0;                // The context's device.
  std::vector<CollectiveCall> calls;
};
// Runs one of its bodies, none, or one repeatedly, depending on a number set by kernels.
struct ConditionWork {
  std::uint64_t condition = 0;  // Handle of the number on the device.
  CUgraphConditionalNodeType kind{};
  std::vector<std::shared_ptr<Graph>> bodies;
  std::shared_ptr<std::vector<CUgraph>> handles;  // Bodies' handles, read by the program.
};
// Order of CUgraphNodeType, without semaphores. NCCL's work is reported as kernels, as it is
// natively.
using Work = std::variant<KernelWork, CopyWork, SetWork, HostWork, ChildWork, EmptyWork, WaitWork,
                          RecordWork, AllocateWork, FreeWork, MemoryBatchWork, ConditionWork,
                          CollectiveWork>;

CUgraphNodeType TypeOf(const Work& work);

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
  void* Tell(std::size_t index, std::span<const std::byte> bytes);
  // Same for a list of pointers to the kernel's arguments.
  void** TellArguments(const KernelWork& kernel);

 private:
  std::map<std::pair<std::size_t, std::size_t>, std::unique_ptr<std::byte[]>> told_;
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
  bool given = false;                     // Recording on the device was tried.
  std::vector<const GraphNode*> changed;  // Nodes with new work not sent yet.
  std::uint64_t registry_version = 0;     // Registry version at the last check of its kernels.
  MemoryLeft left;                        // Left by each launch.
  bool stale = false;                     // `parts` must be rebuilt.
  unsigned long long flags = 0;
  std::mutex launching;
  StreamTarget last;         // Stream of the last launch; launches of one exec do not overlap.
  std::uint64_t behind = 0;  // Event after it, if it was in a thread's default stream.
};

// All graphs of the process. Functions are called with the mutex held.
class Graphs {
 public:
  static Graphs& Get();
  std::mutex mutex;

  std::shared_ptr<Graph> Create();
  std::shared_ptr<Graph> Clone(const Graph& graph);
  std::shared_ptr<Graph> Find(CUgraph graph);
  // A node and its graph; both null if unknown.
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

  // Destroys the graphs belonging to a node.
  void DestroyPartsOf(const GraphNode& node);
  // Adds the new node's handle for Find.
  void Name(const std::shared_ptr<Graph>& graph, GraphNode* node);

 private:
  std::map<std::uint64_t, std::shared_ptr<Graph>> graphs_;
  std::map<std::uint64_t, Place> nodes_;
  std::map<std::uint64_t, std::shared_ptr<GraphExec>> execs_;
};

// Position of a new node: its graph and its dependencies.
struct NewNode {
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

// Posts the nodes' work to the stream, or to another device in the stream's order. `order` is
// InOrder's. Waits for values in memory hold up only nodes depending on them (run.cc).
Error RunGraph(Session& session, const StreamTarget& target, const std::vector<GraphNode*>& order);

}  // namespace cuspan

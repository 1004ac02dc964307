// Graphs: construction by cuGraph*, instantiation, and execution. (CUDA Driver API, "Graph
// Management"; CUDA C++ Programming Guide, "Conditional Graph Nodes")
//
// Nodes are executed one after another. A node depends only on nodes added before it, so the order
// of addition is a valid order of execution. The only exception: waits for values go last, because
// nodes independent of them may write the value.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <variant>
#include <vector>

#include "proxy/softgpu/driver/context.h"
#include "proxy/softgpu/driver/launch.h"
#include "proxy/softgpu/driver/pitched_copy.h"
#include "proxy/softgpu/rt/graph_conditions.h"
#include "proxy/softgpu/rt/memory_batch.h"
#include "proxy/softgpu/rt/queue.h"
#include "proxy/softgpu/rt/transfer.h"

namespace cuspan::softgpu {

// --- Graphs under construction

struct KernelNode {
  std::shared_ptr<Function> function;
  LaunchShape shape;
  std::vector<std::uint64_t> params;
  bool cooperative = false;
};

struct EmptyNode {};

struct MemoryBatchNode {
  std::vector<MemoryOperation> operations;
};

struct ConditionalNode {
  std::uint64_t condition = 0;
  CUgraphConditionalNodeType type = CU_GRAPH_COND_TYPE_IF;
  std::vector<std::shared_ptr<Graph>> bodies;
  std::vector<CUgraph> handles;  // Handles of the bodies; the caller has the array's address.
};

// Condition created for a graph.
struct GraphCondition {
  std::uint64_t graph;  // Handle of the graph.
  GraphConditions::Condition at_launch;
};

// State shared by a graph made by cuGraphCreate and the bodies of its conditional nodes.
struct GraphTree {
  const std::shared_ptr<Context> context;  // Context of all nodes.
  std::mutex mutex;                        // Guards all graphs and nodes of the tree.
  std::vector<GraphCondition> conditions;  // Ordered by handle.
};

struct GraphNode {
  std::shared_ptr<GraphTree> tree;
  std::uint64_t graph = 0;           // Handle of its graph.
  std::uint64_t handle = 0;          // Handle of the node.
  std::vector<std::uint64_t> after;  // Its dependencies.
  std::variant<EmptyNode, KernelNode, Fill, BoxCopy, MemoryBatchNode, ConditionalNode> work;
};

struct Graph {
  std::shared_ptr<GraphTree> tree;
  // Handles of the enclosing graphs, the outermost first, and of the graph itself as the last.
  std::vector<std::uint64_t> lineage;
  std::vector<std::shared_ptr<GraphNode>> nodes;
};

// --- Executable graphs: snapshots of graphs.

struct GraphStep;

struct KernelStep {
  Launch launch;
  std::shared_ptr<Module> module;
};

struct ConditionalStep {
  std::uint64_t condition = 0;
  CUgraphConditionalNodeType type = CU_GRAPH_COND_TYPE_IF;
  std::vector<std::vector<GraphStep>> bodies;
};

// A node, or one operation of a node.
struct GraphStep {
  std::variant<EmptyNode, KernelStep, Fill, BoxCopy, MemoryOperation, ConditionalStep> work;
  std::vector<std::size_t> after = {};  // Steps of its graph to be executed before.
};

struct GraphProgram {
  std::shared_ptr<Context> context;
  std::vector<GraphConditions::Condition> conditions;  // Values at launch.
  std::vector<GraphStep> steps;
  // Last step of each node of the outermost graph, by node handle.
  std::unordered_map<std::uint64_t, std::size_t> places;
};

struct GraphExec {
  const std::shared_ptr<Context> context;
  std::mutex mutex;                       // Guards the members below.
  std::shared_ptr<GraphProgram> program;  // Not changed while used by a launch.
  OperationPtr last;                      // Its last launch; the next one follows it.
};

// Makes one launch of `program`: the tasks of its nodes one after another, with `priority`.
std::unique_ptr<TaskSequence> MakeGraphRun(Driver& driver,
                                           std::shared_ptr<const GraphProgram> program,
                                           int priority);

}  // namespace cuspan::softgpu

// Graphs: what cuGraph* build, what they become when they are instantiated, and their execution.
// (CUDA Driver API, "Graph Management"; CUDA C++ Programming Guide, "Conditional Graph Nodes")
//
// Nodes are executed one after another. A node can only depend on nodes that are there already: the
// order in which they were added is one in which they may be executed. It is left for waits for
// values alone, which go last, since what does not depend on one may write its value.
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

// --- Graphs as they are built.

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
  std::vector<CUgraph> handles;  // Of the bodies; the caller has its address.
};

// A condition that was made for a graph.
struct GraphCondition {
  std::uint64_t graph;  // The graph's handle.
  GraphConditions::Condition at_launch;
};

// What a graph made by cuGraphCreate and the bodies of its conditional nodes share.
struct GraphTree {
  const std::shared_ptr<Context> context;  // Where its nodes run.
  std::mutex mutex;                        // Guards all graphs and nodes of the tree.
  std::vector<GraphCondition> conditions;  // In the order of their handles.
};

struct GraphNode {
  std::shared_ptr<GraphTree> tree;
  std::uint64_t graph = 0;           // The handle of the one that it is in.
  std::uint64_t handle = 0;          // Its own.
  std::vector<std::uint64_t> after;  // Those that it depends on.
  std::variant<EmptyNode, KernelNode, Fill, BoxCopy, MemoryBatchNode, ConditionalNode> work;
};

struct Graph {
  std::shared_ptr<GraphTree> tree;
  // The handles of the graphs that it is a body in, the outermost first, and last its own.
  std::vector<std::uint64_t> lineage;
  std::vector<std::shared_ptr<GraphNode>> nodes;
};

// --- Executable graphs: snapshots of such graphs.

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

// A node, or one operation of it.
struct GraphStep {
  std::variant<EmptyNode, KernelStep, Fill, BoxCopy, MemoryOperation, ConditionalStep> work;
  std::vector<std::size_t> after = {};  // The steps of its graph that come before it.
};

struct GraphProgram {
  std::shared_ptr<Context> context;
  std::vector<GraphConditions::Condition> conditions;  // As they are when a launch begins.
  std::vector<GraphStep> steps;
  // The last step of each node of the graph itself, by its handle.
  std::unordered_map<std::uint64_t, std::size_t> places;
};

struct GraphExec {
  const std::shared_ptr<Context> context;
  std::mutex mutex;                       // Guards what follows.
  std::shared_ptr<GraphProgram> program;  // Not changed while a launch has it.
  OperationPtr last;                      // Its last launch, which the next one comes after.
};

// One launch of `program`: its nodes' tasks, which have `priority`, one after another.
std::unique_ptr<TaskSequence> MakeGraphRun(Driver& driver,
                                           std::shared_ptr<const GraphProgram> program,
                                           int priority);

}  // namespace cuspan::softgpu

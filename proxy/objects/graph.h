// Graphs of the client, and their instances.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "proxy/gpu/driver.h"
#include "proxy/objects/kernel_time.h"

namespace cuspan::proxy {

// A graph created by the client, or a body of one of its conditional nodes. Owner: the receiving
// thread, unless noted otherwise. Destroyed by a thread with the device's context.
struct Graph {
  Graph() = default;
  explicit Graph(const Driver& functions) : functions(&functions) {}
  ~Graph() {
    if (functions != nullptr && driver != nullptr) functions->cuGraphDestroy(driver);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  const Driver* functions = nullptr;  // Null for a body: it is destroyed with its node.
  CUgraph driver = nullptr;
  std::shared_ptr<Graph> whole;    // Graph containing a body.
  std::vector<CUgraphNode> nodes;  // Ordered by creation.
  // Used for whole graphs only:
  CUresult failure = CUDA_SUCCESS;    // Error of the first failed node.
  std::vector<std::uint64_t> bodies;  // Handles.
  std::uint64_t generation = 0;       // Generation; incremented when all nodes are removed.
  bool prints = false;                // One of its kernels, or of an instance's, may print.
  // Number of its tasks on the worker: the driver allows one thread at a time for a graph.
  std::atomic<unsigned> tasks = 0;
  CUresult unclean = CUDA_SUCCESS;  // Owner: the worker. Error of removing its nodes.
};

// An instance of a graph. Kept until its last queued launch. Destroyed by a thread with the
// device's context.
struct GraphExec {
  GraphExec(const Driver& functions, std::shared_ptr<Graph> graph, std::uint64_t generation)
      : functions(functions), graph(std::move(graph)), generation(generation) {}
  ~GraphExec() {
    if (driver != nullptr) functions.cuGraphExecDestroy(driver);
  }
  GraphExec(const GraphExec&) = delete;
  GraphExec& operator=(const GraphExec&) = delete;

  const Driver& functions;
  const std::shared_ptr<Graph> graph;
  const std::uint64_t generation;  // Graph::life at instantiation.
  CUgraphExec driver = nullptr;
  // Run time of all nodes.
  const std::shared_ptr<KernelTime> time = std::make_shared<KernelTime>();
  // Error of changing a node. Owner: the receiving thread.
  CUresult failure = CUDA_SUCCESS;
};

}  // namespace cuspan::proxy

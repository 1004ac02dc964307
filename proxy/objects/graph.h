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

// A graph recorded by the client, or a body of one of its conditional nodes. Of the receiving
// thread, unless said otherwise; it ends in a thread with the device's context.
struct Graph {
  Graph() = default;
  explicit Graph(const Driver& functions) : functions(&functions) {}
  ~Graph() {
    if (functions != nullptr && driver != nullptr) functions->cuGraphDestroy(driver);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  const Driver* functions = nullptr;  // Of a whole graph, which goes with what was made of it.
  CUgraph driver = nullptr;
  std::shared_ptr<Graph> whole;    // Of a body: the graph that it is a part of.
  std::vector<CUgraphNode> nodes;  // In the order of recording.
  // Of a whole graph.
  CUresult failure = CUDA_SUCCESS;    // The first of its nodes that could not be made.
  std::vector<std::uint64_t> bodies;  // Their handles.
  std::uint64_t life = 0;             // Counts the times that its nodes went.
  // Tasks that the worker has for it: the driver has one thread at a time work on a graph.
  std::atomic<unsigned> tasks = 0;
  CUresult unclean = CUDA_SUCCESS;  // The worker's: why not all of its nodes could be removed.
};

// What was instantiated of a graph. It goes with the last launch that waits for its turn; of
// threads with the device's context.
struct GraphExec {
  GraphExec(const Driver& functions, std::shared_ptr<Graph> graph, std::uint64_t life)
      : functions(functions), graph(std::move(graph)), life(life) {}
  ~GraphExec() {
    if (driver != nullptr) functions.cuGraphExecDestroy(driver);
  }
  GraphExec(const GraphExec&) = delete;
  GraphExec& operator=(const GraphExec&) = delete;

  const Driver& functions;
  const std::shared_ptr<Graph> graph;
  const std::uint64_t life;  // Of the graph, when this was instantiated.
  CUgraphExec driver = nullptr;
  const std::shared_ptr<KernelTime> time = std::make_shared<KernelTime>();  // Of all that it does.
  // Of the receiving thread: why a node could not be changed.
  CUresult failure = CUDA_SUCCESS;
};

}  // namespace cuspan::proxy

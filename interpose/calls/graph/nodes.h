// Nodes of graphs: reaching what a handle stands for, adding nodes, and changing what they do.
#pragma once

#include <algorithm>
#include <functional>
#include <iterator>

#include "interpose/calls/graph/graph.h"

namespace cuspan {

// use(const std::shared_ptr<Graph>&) → Error, with the graphs in peace.
template <typename Use>
Error WithGraph(CUgraph graph, Use&& use) {
  CUSPAN_RETURN_IF_FAILED(CheckMayCall());
  std::lock_guard lock(Graphs::Get().mutex);
  const std::shared_ptr<Graph> found = Graphs::Get().Find(graph);
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return use(found);
}

// use(const Graphs::Place&) → Error, the same.
template <typename Use>
Error WithNode(CUgraphNode node, Use&& use) {
  CUSPAN_RETURN_IF_FAILED(CheckMayCall());
  std::lock_guard lock(Graphs::Get().mutex);
  const Graphs::Place place = Graphs::Get().Find(node);
  if (place.node == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return use(place);
}

// Whether members without a meaning are 0, which other values may get one day.
template <typename Member, std::size_t kCount>
bool AreClear(const Member (&members)[kCount]) {
  return std::all_of(std::begin(members), std::end(members),
                     [](Member member) { return member == 0; });
}
// The same for the parameters of any node, as either face describes them.
template <typename Parameters>
bool IsReservedClear(const Parameters& parameters) {
  return AreClear(parameters.reserved0) && parameters.reserved2 == 0;
}

// Adds a node that depends on others of the graph. make_work(NewNode, Work*) → Error says what it
// does, with the graphs in peace.
using WorkOfGraph = std::function<Error(const NewNode&, Work*)>;
Error AddNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, std::size_t count,
              const WorkOfGraph& make_work);
Error AddNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, std::size_t count,
              Work work);
// A number that kernels set, for conditional nodes of the graph. `flags` as in
// cuGraphConditionalHandleCreate.
Error CreateCondition(CUgraphConditionalHandle* handle, CUgraph graph, unsigned value,
                      unsigned flags);
// The same for a conditional node; its bodies are given to the program (conditions.cc).
Error AddConditionalNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                         std::size_t count, CUDA_CONDITIONAL_NODE_PARAMS* parameters);
// The same for a graph inside, as `ownership` says: a clone of `child`, or `child` itself.
Error AddChildNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                   std::size_t count, CUgraph child, int ownership);
// A clone of the graph as a node of another, with the graphs in peace. CUDA_ERROR_NOT_SUPPORTED, as
// CUDA has it, for one with conditions or nodes of memory.
Error CloneAsChild(const Graph& graph, Work* work);

// --- What a node is to do, checked as far as that can be done without the node's place.
// A copy, which need not be possible yet.
Error DescribeCopy(const BoxRequest& box, Work* work);
// A copy of one run of bytes. A node of no bytes, and one that runs over a device's allocation, are
// refused when they are described, as by the driver (measured, 580).
Error DescribeRun(void* destination, const void* source, std::size_t bytes, CopySides sides,
                  Work* work);
Error DescribeSet(const CUDA_MEMSET_NODE_PARAMS& parameters, Work* work);
Error DescribeHost(const HostFunction& call, Work* work);
// A clone of the graph.
Error DescribeChild(CUgraph graph, Work* work);
// `Kind` is WaitWork or RecordWork.
template <typename Kind>
Error DescribeEvent(CUevent event, Work* work) {
  if (event == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *work = Kind{event};
  return CUDA_SUCCESS;
}

// use(GraphNode&, const Kind&) for a node of that kind; `out` is where it tells the program, and
// not null.
template <typename Kind, typename Use>
Error AboutWork(CUgraphNode node, const void* out, Use&& use) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return WithNode(node, [&](const Graphs::Place& place) -> Error {
    auto* const work = std::get_if<Kind>(&place.node->work);
    if (work == nullptr) return CUDA_ERROR_INVALID_VALUE;
    use(*place.node, *work);
    return CUDA_SUCCESS;
  });
}

// Puts other work of the same kind into a node; CUDA_ERROR_INVALID_VALUE for another kind.
Error ReplaceWork(GraphNode& node, Work work);
Error SetNode(CUgraphNode node, Work work);

}  // namespace cuspan

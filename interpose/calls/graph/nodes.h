// Nodes of graphs: creation, and changes of their work.
#pragma once

#include <algorithm>
#include <functional>
#include <iterator>

#include "interpose/calls/graph/graph_table.h"

namespace cuspan {

// True if reserved members are 0; other values may get a meaning in future.
template <typename Member, std::size_t kCount>
bool AreClear(const Member (&members)[kCount]) {
  return std::all_of(std::begin(members), std::end(members),
                     [](Member member) { return member == 0; });
}
// Same for the parameters of any node, of either API.
template <typename Parameters>
bool IsReservedClear(const Parameters& parameters) {
  return AreClear(parameters.reserved0) && parameters.reserved2 == 0;
}

// Adds a node depending on others of the graph. make_work(NewNode, Work*) → Error describes its
// work, with GraphTable::mutex held.
using WorkOfGraph = std::function<Error(const NewNode&, Work*)>;
Error AddNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, std::size_t count,
              const WorkOfGraph& make_work);
Error AddNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, std::size_t count,
              Work work);
// Adds a child graph: a clone of `child`, or `child` itself, depending on `ownership`.
Error AddChildNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                   std::size_t count, CUgraph child, int ownership);
// Describes a node with a clone of the graph. CUDA_ERROR_NOT_SUPPORTED for graphs with conditions
// or memory nodes, same as in CUDA.
Error CloneAsChild(Graphs& graphs, const Graph& graph, Work* work);

// --- Descriptions of work, checked as far as possible without the node's position
// A copy; it need not be possible yet.
Error DescribeCopy(const BoxRequest& box, Work* work);
// A copy of one contiguous range. Copies of 0 bytes or beyond a device's allocation are refused
// already here, same as by the driver (measured, 580).
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

// Calls use(GraphNode&, const Kind&) for a node of this kind. `out`: the program's pointer to the
// result; must not be null.
template <typename Kind, typename Use>
Error WithWork(CUgraphNode node, const void* out, Use&& use) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return WithNode(node, [&](Graphs&, const NodeInGraph& place) -> Error {
    auto* const work = std::get_if<Kind>(&place.node->work);
    if (work == nullptr) return CUDA_ERROR_INVALID_VALUE;
    use(*place.node, *work);
    return CUDA_SUCCESS;
  });
}

// Replaces a node's work by other work of the same kind; CUDA_ERROR_INVALID_VALUE for another kind.
Error ReplaceWork(GraphNode& node, Work work);
Error SetNode(CUgraphNode node, Work work);

}  // namespace cuspan

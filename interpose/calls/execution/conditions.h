// Conditions of graphs, and conditional nodes using them.
#pragma once

#include "interpose/calls/graph/nodes.h"

namespace cuspan {

// Creates a number set by kernels, for conditional nodes of the graph. `flags` as in
// cuGraphConditionalHandleCreate.
Error CreateCondition(CUgraphConditionalHandle* handle, CUgraph graph, unsigned value,
                      unsigned flags);
// Adds a conditional node; the program gets its bodies.
Error AddConditionalNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                         std::size_t count, CUDA_CONDITIONAL_NODE_PARAMS* parameters);

}  // namespace cuspan

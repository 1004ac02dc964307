// Drawings of graphs in DOT format.
#include "interpose/calls/graph/dot.h"
#include "interpose/runtime/entry.h"

using namespace cuspan;  // NOLINT: the entry points below are the C API.

// The flags request details of nodes not drawn here. The structure of the graph is complete without
// them.
CUSPAN_EXPORT cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, const char* path,
                                                 unsigned /*flags*/) {
  return Answer([&] { return DrawGraph(graph, path); });
}

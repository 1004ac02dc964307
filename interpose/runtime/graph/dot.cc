// Graphs drawn.
#include "interpose/calls/graph/dot.h"
#include "interpose/runtime/entry.h"

using namespace cuspan;  // NOLINT: the entry points below are the C API.

// The flags ask for more details of nodes than are drawn here: none of them is missed by a reader
// of the structure.
CUSPAN_EXPORT cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, const char* path,
                                                 unsigned /*flags*/) {
  return Answer([&] { return DrawGraph(graph, path); });
}

// Conditions of graphs.
#include "interpose/calls/execution/conditions.h"
#include "interpose/calls/graph/nodes.h"
#include "interpose/runtime/entry.h"

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT cudaError_t cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle* handle,
                                                           cudaGraph_t graph, unsigned value,
                                                           unsigned flags) {
  return Answer([&]() -> Error {
    if (handle == nullptr) return cudaErrorInvalidValue;
    CUgraphConditionalHandle made = 0;
    CUSPAN_RETURN_IF_FAILED(CreateCondition(&made, graph, value, flags));
    *handle = made;
    return cudaSuccess;
  });
}

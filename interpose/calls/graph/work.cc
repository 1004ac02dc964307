#include "interpose/calls/graph/work.h"

#include <algorithm>
#include <iterator>

namespace cuspan {

CUgraphNodeType TypeOf(const Work& work) {
  constexpr CUgraphNodeType kTypes[] = {
      CU_GRAPH_NODE_TYPE_KERNEL,       CU_GRAPH_NODE_TYPE_MEMCPY,
      CU_GRAPH_NODE_TYPE_MEMSET,       CU_GRAPH_NODE_TYPE_HOST,
      CU_GRAPH_NODE_TYPE_GRAPH,        CU_GRAPH_NODE_TYPE_EMPTY,
      CU_GRAPH_NODE_TYPE_WAIT_EVENT,   CU_GRAPH_NODE_TYPE_EVENT_RECORD,
      CU_GRAPH_NODE_TYPE_MEM_ALLOC,    CU_GRAPH_NODE_TYPE_MEM_FREE,
      CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, CU_GRAPH_NODE_TYPE_CONDITIONAL,
      CU_GRAPH_NODE_TYPE_KERNEL};
  static_assert(std::size(kTypes) == std::variant_size_v<Work>);
  return kTypes[work.index()];
}

bool WaitsForValue(const MemoryBatchWork& work) {
  return std::any_of(work.operations.begin(), work.operations.end(), [](const auto& one) {
    return one.operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 ||
           one.operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
  });
}

}  // namespace cuspan

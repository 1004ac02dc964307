// Memory that graphs allocate.
#pragma once

#include "interpose/calls/graph/graph.h"

namespace cuspan {

// What a node does that allocates memory, and its address in `parameters`; or one that frees some.
// With the graphs in peace.
Error DescribeAllocation(const NewNode& place, CUDA_MEM_ALLOC_NODE_PARAMS* parameters, Work* work);
Error DescribeFree(const NewNode& place, void* memory, Work* work);
// In it or in graphs inside. Then neither its nodes nor its edges can be removed, as CUDA has it:
// other nodes rely on their order; and one executable graph is made of it at a time.
bool HasMemoryNodes(const Graph& graph);

// What a launch of the graph, with those inside, leaves in the program's hands, and takes from it.
MemoryLeft LeftByLaunch(const Graph& graph);
// Before a launch. CUDA_ERROR_INVALID_VALUE where it allocates what the program still has of a
// launch before, unless `again`, or frees what the program does not have.
Error HandOver(Session& session, const MemoryLeft& left, bool again);

// What the graphs of a device have allocated.
Error GetGraphMemory(int device, CUgraphMem_attribute attribute, std::uint64_t* value);
// Only the highest values can be set, to 0: they start anew.
Error SetGraphMemory(int device, CUgraphMem_attribute attribute, std::uint64_t value);
// What no graph has goes back by itself.
Error TrimGraphMemory(int device);

}  // namespace cuspan

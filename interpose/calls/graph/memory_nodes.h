// Memory allocated by graphs.
#pragma once

#include "interpose/calls/graph/graph.h"

namespace cuspan {

// Describes a node allocating memory, with its address in `parameters`; or a node freeing memory.
// GraphTable::mutex is held.
Error DescribeAllocation(const NewNode& place, CUDA_MEM_ALLOC_NODE_PARAMS* parameters, Work* work);
Error DescribeFree(const NewNode& place, void* memory, Work* work);
// True if the graph or a child graph has memory nodes. Then, same as in CUDA, its nodes and edges
// cannot be removed, since other nodes rely on their order. It has one executable graph at a time.
bool HasMemoryNodes(const Graph& graph);

// Memory left to the program and taken from it by a launch, including child graphs.
MemoryLeft LeftByLaunch(const Graph& graph);
// To be called before a launch. CUDA_ERROR_INVALID_VALUE if it frees memory the program does not
// own. Same if it allocates memory still owned by the program after a former launch, unless
// `again`.
Error HandOver(Session& session, const MemoryLeft& left, bool again);

// Memory allocated by the graphs of a device, in bytes.
Error GetGraphMemory(int device, CUgraphMem_attribute attribute, std::uint64_t* value);
// Only maximum values can be set, and only to 0: they restart at the current value.
Error SetGraphMemory(int device, CUgraphMem_attribute attribute, std::uint64_t value);
// Frees memory of destroyed graphs.
Error TrimGraphMemory(int device);

}  // namespace cuspan

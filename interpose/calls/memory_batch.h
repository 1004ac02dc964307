// Stream memory operations: waits of a stream until a value in memory is there, and writes of
// values, one or several at a time.
#pragma once

#include "interpose/calls/graph/graph.h"

namespace cuspan {

// The two forms of these functions, which differ in the flags and operations that they know.
enum class MemoryOperationForm { kFirst, kSecond };

// `flags` as in cuStreamBatchMemOp. CUDA_ERROR_INVALID_VALUE for places that are not aligned or not
// memory that the stream's device can use, managed memory included;
// CUDA_ERROR_NOT_SUPPORTED for what the device can not do.
Error BatchMemoryOperations(CUstream stream, DefaultStream meaning, unsigned count,
                            const CUstreamBatchMemOpParams* operations, unsigned flags,
                            MemoryOperationForm form);

// The same as a node of a graph, in the context that the parameters name, or the current one.
Error DescribeMemoryBatch(const CUDA_BATCH_MEM_OP_NODE_PARAMS& parameters, Work* work);

// What to post for work that was checked; the stream or the graph is the caller's to add.
std::vector<MemoryOperation> OperationsOf(const MemoryBatchWork& work);
// Hands it to the stream; CUDA_ERROR_INVALID_VALUE when memory has gone since.
Error PostMemoryBatch(Session& session, const StreamTarget& target, const MemoryBatchWork& work);

// Whether the work waits for a value.
bool WaitsForValue(const MemoryBatchWork& work);
// Whether the two differ only in what CUDA lets one change after instantiation: places, values and
// what waits compare for.
bool AreAlike(const MemoryBatchWork& one, const MemoryBatchWork& other);

}  // namespace cuspan

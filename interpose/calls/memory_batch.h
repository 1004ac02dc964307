// Stream memory operations: a stream waits for a value in memory, or writes one. A call has one or
// several operations.
#pragma once

#include "interpose/calls/graph/work.h"

namespace cuspan {

// First and second (_v2) form of these functions; they differ in flags and operations.
enum class MemoryOperationForm { kFirst, kSecond };

// `flags` as in cuStreamBatchMemOp. CUDA_ERROR_INVALID_VALUE for addresses not aligned, in managed
// memory, or not usable by the stream's device. CUDA_ERROR_NOT_SUPPORTED for operations not
// supported by the device.
Error BatchMemoryOperations(CUstream stream, DefaultStream meaning, unsigned count,
                            const CUstreamBatchMemOpParams* operations, unsigned flags,
                            MemoryOperationForm form);

// Same as a node of a graph, in the context named by the parameters, or the current one.
Error DescribeMemoryBatch(const CUDA_BATCH_MEM_OP_NODE_PARAMS& parameters, Work* work);

// Operations to post for checked work. The caller adds the stream or the graph.
std::vector<MemoryOperation> OperationsOf(const MemoryBatchWork& work);
// Posts it to the stream; CUDA_ERROR_INVALID_VALUE if memory was freed since.
Error PostMemoryBatch(Session& session, const StreamTarget& target, const MemoryBatchWork& work);

// True if the two differ only in parts changeable after instantiation: addresses, values and wait
// conditions.
bool AreAlike(const MemoryBatchWork& one, const MemoryBatchWork& other);

}  // namespace cuspan

// Batches of stream memory operations of streams and graphs.
#pragma once

#include <cuda.h>

#include <vector>

#include "proxy/softgpu/driver/state.h"
#include "proxy/softgpu/rt/memory_batch.h"

namespace cuspan::softgpu {

// Appends the waits and writes of a call's `count` operations. Barriers and flushes do nothing,
// because all memory is coherent. Returns CUDA_ERROR_INVALID_VALUE for values unknown to CUDA, and
// for addresses not aligned or not accessible to `context`'s device.
CUresult PrepareMemoryBatch(const Driver& driver, const Context& context, unsigned count,
                            const CUstreamBatchMemOpParams* params, unsigned flags,
                            std::vector<MemoryOperation>* operations);

}  // namespace cuspan::softgpu

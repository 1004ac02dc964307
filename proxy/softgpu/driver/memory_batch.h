// Batches of stream memory operations, as streams and graphs have them.
#pragma once

#include <cuda.h>

#include <vector>

#include "proxy/softgpu/driver/state.h"
#include "proxy/softgpu/rt/memory_batch.h"

namespace cuspan::softgpu {

// What is to be done of the `count` operations of a call; barriers and flushes are nothing here,
// where all memory is coherent. CUDA_ERROR_INVALID_VALUE for what CUDA does not know, and for
// places that are not aligned or that `context`'s device may not use.
CUresult PrepareMemoryBatch(const Driver& driver, const Context& context, unsigned count,
                            const CUstreamBatchMemOpParams* params, unsigned flags,
                            std::vector<MemoryOperation>* operations);

}  // namespace cuspan::softgpu

// How many blocks of a kernel fit a multiprocessor of one device.
#pragma once

#include "interpose/runtime/entry.h"

namespace cuspan {

// Asks the device, once for each question: a round trip. `flags` as in
// cudaOccupancyMaxActiveBlocks…WithFlags.
Error ActiveBlocks(Link& link, const LoadedKernel& kernel, int block_threads,
                   std::size_t dynamic_shared, unsigned flags, int* blocks);

}  // namespace cuspan

// How many blocks of a kernel fit a multiprocessor of one device.
#pragma once

#include "interpose/runtime/entry.h"
#include "interpose/runtime/launch.h"

namespace cuspan {

// Asks the device, once for each question: a round trip. `flags` as in
// cudaOccupancyMaxActiveBlocks…WithFlags.
Error ActiveBlocks(Link& link, const LoadedKernel& kernel, int block_threads,
                   std::size_t dynamic_shared, unsigned flags, int* blocks);

// The blocks of the largest cluster that the device can run with blocks of this launch's size;
// asked once for each size: a round trip.
Error LargestCluster(Link& link, const LoadedKernel& kernel, const LaunchCall& call, int* blocks);

}  // namespace cuspan

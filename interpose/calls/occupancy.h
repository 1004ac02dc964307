// Occupancy: blocks of a kernel per multiprocessor of a device, computed by its driver in a round
// trip. ActiveBlocks and LargestCluster cache the results.
#pragma once

#include "interpose/calls/launch.h"

namespace cuspan {

// `flags` as in CUoccupancy_flags.
Error ActiveBlocks(ContextConnection& connection, const LoadedKernel& kernel, int block_threads,
                   std::size_t dynamic_shared, unsigned flags, int* blocks);

// Blocks of the largest cluster runnable on the device, with blocks of this launch's size.
Error LargestCluster(ContextConnection& connection, const LoadedKernel& kernel,
                     const LaunchCall& call, int* blocks);

// Checks the launch. Returns the number of its clusters active at a time, or the blocks of its
// largest possible cluster.
Error ActiveClusters(ContextConnection& connection, const LoadedKernel& kernel,
                     const LaunchCall& call, int* clusters);
Error PotentialCluster(ContextConnection& connection, const LoadedKernel& kernel,
                       const LaunchCall& call, int* blocks);

// Maximum dynamic shared memory of a block with `blocks` blocks per multiprocessor.
Error AvailableShared(ContextConnection& connection, const LoadedKernel& kernel, int blocks,
                      int block_threads, std::size_t* bytes);

}  // namespace cuspan

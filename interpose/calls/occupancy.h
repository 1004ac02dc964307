// How many blocks of a kernel fit a multiprocessor of one device. The device's driver computes it;
// each question is asked once: a round trip.
#pragma once

#include "interpose/calls/launch.h"

namespace cuspan {

// `flags` as in CUoccupancy_flags.
Error ActiveBlocks(ContextConnection& connection, const LoadedKernel& kernel, int block_threads,
                   std::size_t dynamic_shared, unsigned flags, int* blocks);

// The blocks of the largest cluster that the device can run with blocks of this launch's size.
Error LargestCluster(ContextConnection& connection, const LoadedKernel& kernel,
                     const LaunchCall& call, int* blocks);

// Of such a launch, which is checked: how many of its clusters are active at a time, or the blocks
// of the largest one that it may have.
Error ActiveClusters(ContextConnection& connection, const LoadedKernel& kernel,
                     const LaunchCall& call, int* clusters);
Error PotentialCluster(ContextConnection& connection, const LoadedKernel& kernel,
                       const LaunchCall& call, int* blocks);

// The dynamic shared memory of a block when so many blocks are to fit.
Error AvailableShared(ContextConnection& connection, const LoadedKernel& kernel, int blocks,
                      int block_threads, std::size_t* bytes);

}  // namespace cuspan

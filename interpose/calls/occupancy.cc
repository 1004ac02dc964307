#include "interpose/calls/occupancy.h"

namespace cuspan {
namespace {

// Returns the cached result for `key`, or gets it from ask(blocks) → Error.
template <typename Ask>
Error AskOnce(const LoadedKernel& kernel, const Occupancies::Key& key, int* blocks, Ask&& ask) {
  if (const auto known = kernel.occupancies->Find(key)) {
    *blocks = *known;
    return CUDA_SUCCESS;
  }
  CUSPAN_RETURN_IF_FAILED(ask(blocks));
  kernel.occupancies->Add(key, *blocks);
  return CUDA_SUCCESS;
}

// Number of clusters of this launch active at a time, or blocks of the largest cluster.
Error AskAboutClusters(ContextConnection& connection, const LoadedKernel& kernel,
                       const LaunchCall& call, bool largest, int* value) {
  KernelClusters op;
  op.kernel = kernel.handle;
  op.shape = ShapeOf(call);
  op.largest = largest;
  KernelClusters::Reply reply;
  CUSPAN_RETURN_IF_FAILED(connection.Call(op, &reply));
  *value = reply.value;
  return CUDA_SUCCESS;
}

// The grid matters only with an explicit cluster size.
Error CheckedClusters(ContextConnection& connection, const LoadedKernel& kernel,
                      const LaunchCall& call, bool largest, int* value) {
  if (HasClusters(call)) CUSPAN_RETURN_IF_FAILED(CheckCluster(kernel, call.shape, call.cluster));
  return AskAboutClusters(connection, kernel, call, largest, value);
}

}  // namespace

Error ActiveBlocks(ContextConnection& connection, const LoadedKernel& kernel, int block_threads,
                   std::size_t dynamic_shared, unsigned flags, int* blocks) {
  const Occupancies::Key key{block_threads, dynamic_shared, flags};
  return AskOnce(kernel, key, blocks, [&](int* answer) -> Error {
    KernelOccupancy op;
    op.kernel = kernel.handle;
    op.block_threads = block_threads;
    op.dynamic_shared = dynamic_shared;
    op.flags = flags;
    KernelOccupancy::Reply reply;
    CUSPAN_RETURN_IF_FAILED(connection.Call(op, &reply));
    *answer = reply.blocks;
    return CUDA_SUCCESS;
  });
}

Error LargestCluster(ContextConnection& connection, const LoadedKernel& kernel,
                     const LaunchCall& call, int* blocks) {
  const Dim3& block = call.shape.block;
  const Occupancies::Key key{static_cast<int>(block.x * block.y * block.z),
                             call.shape.dynamic_shared, Occupancies::kLargestCluster};
  return AskOnce(kernel, key, blocks, [&](int* answer) {
    return AskAboutClusters(connection, kernel, call, true, answer);
  });
}

Error ActiveClusters(ContextConnection& connection, const LoadedKernel& kernel,
                     const LaunchCall& call, int* clusters) {
  return CheckedClusters(connection, kernel, call, false, clusters);
}

Error PotentialCluster(ContextConnection& connection, const LoadedKernel& kernel,
                       const LaunchCall& call, int* blocks) {
  return CheckedClusters(connection, kernel, call, true, blocks);
}

Error AvailableShared(ContextConnection& connection, const LoadedKernel& kernel, int blocks,
                      int block_threads, std::size_t* bytes) {
  KernelAvailableShared op;
  op.kernel = kernel.handle;
  op.blocks = blocks;
  op.block_threads = block_threads;
  KernelAvailableShared::Reply reply;
  CUSPAN_RETURN_IF_FAILED(connection.Call(op, &reply));
  *bytes = reply.bytes;
  return CUDA_SUCCESS;
}

}  // namespace cuspan

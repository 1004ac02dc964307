// How many blocks of a kernel fit a multiprocessor. The device's driver computes it.
#include "interpose/runtime/occupancy.h"
#include "interpose/runtime/function.h"
#include "interpose/runtime/launch.h"

namespace cuspan {

namespace {

// Answers `key` from what the kernel's device has said before, or with what ask(blocks) → Error
// says.
template <typename Ask>
Error AskOnce(Link& link, const LoadedKernel& kernel, const Occupancies::Key& key, int* blocks,
              Ask&& ask) {
  if (const auto known = kernel.occupancies->Find(key)) {
    *blocks = *known;
    return link.fault();
  }
  CUSPAN_RETURN_IF_FAILED(ask(blocks));
  kernel.occupancies->Add(key, *blocks);
  return cudaSuccess;
}

// About the clusters of such a launch: how many are active at a time, or how many blocks the
// largest has.
Error AskAboutClusters(Link& link, const LoadedKernel& kernel, const LaunchCall& call, bool largest,
                       int* value) {
  KernelClusters op;
  op.kernel = kernel.handle;
  op.shape = ShapeOf(call);
  op.largest = largest;
  KernelClusters::Reply reply;
  CUSPAN_RETURN_IF_FAILED(link.Call(op, &reply));
  *value = reply.value;
  return cudaSuccess;
}

}  // namespace

Error ActiveBlocks(Link& link, const LoadedKernel& kernel, int block_threads,
                   std::size_t dynamic_shared, unsigned flags, int* blocks) {
  const Occupancies::Key key{block_threads, dynamic_shared, flags};
  return AskOnce(link, kernel, key, blocks, [&](int* answer) -> Error {
    KernelOccupancy op;
    op.kernel = kernel.handle;
    op.block_threads = block_threads;
    op.dynamic_shared = dynamic_shared;
    op.flags = flags;
    KernelOccupancy::Reply reply;
    CUSPAN_RETURN_IF_FAILED(link.Call(op, &reply));
    *answer = reply.blocks;
    return cudaSuccess;
  });
}

Error LargestCluster(Link& link, const LoadedKernel& kernel, const LaunchCall& call, int* blocks) {
  const dim3& block = call.shape.block;
  const Occupancies::Key key{static_cast<int>(block.x * block.y * block.z),
                             call.shape.dynamic_shared, Occupancies::kLargestCluster};
  return AskOnce(link, kernel, key, blocks,
                 [&](int* answer) { return AskAboutClusters(link, kernel, call, true, answer); });
}

namespace {

Error MaxActiveBlocks(int* blocks, const void* function, int block_threads,
                      std::size_t dynamic_shared, unsigned flags) {
  if (function == nullptr) return cudaErrorInvalidDeviceFunction;
  if (blocks == nullptr || block_threads <= 0 || flags > cudaOccupancyDisableCachingOverride) {
    return cudaErrorInvalidValue;
  }
  return OnCurrentDevice([&](Session&, Link& link) -> Error {
    LoadedKernel* kernel = nullptr;
    CUSPAN_RETURN_IF_FAILED(FindKernel(link, function, &kernel));
    return ActiveBlocks(link, *kernel, block_threads, dynamic_shared, flags, blocks);
  });
}

// About the clusters of a launch with this configuration.
Error AskAboutClusters(int* value, const void* function, const cudaLaunchConfig_t* config,
                       bool largest) {
  if (function == nullptr) return cudaErrorInvalidDeviceFunction;
  if (value == nullptr) return cudaErrorInvalidValue;
  LaunchCall call{};
  CUSPAN_RETURN_IF_FAILED(ReadConfig(config, function, nullptr, &call));
  return OnCurrentDevice([&](Session&, Link& link) -> Error {
    LoadedKernel* kernel = nullptr;
    CUSPAN_RETURN_IF_FAILED(FindKernel(link, function, &kernel));
    // The grid matters only to a cluster that was asked for.
    if (call.cluster.x != 1 || call.cluster.y != 1 || call.cluster.z != 1)
      CUSPAN_RETURN_IF_FAILED(CheckCluster(*kernel, call.shape, call.cluster));
    return AskAboutClusters(link, *kernel, call, largest, value);
  });
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(
    int* blocks, const void* function, int block_threads, std::size_t dynamic_shared) {
  return Answer([&] {
    return MaxActiveBlocks(blocks, function, block_threads, dynamic_shared, cudaOccupancyDefault);
  });
}

CUSPAN_EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* blocks, const void* function, int block_threads, std::size_t dynamic_shared,
    unsigned flags) {
  return Answer(
      [&] { return MaxActiveBlocks(blocks, function, block_threads, dynamic_shared, flags); });
}

CUSPAN_EXPORT cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(std::size_t* bytes,
                                                                    const void* function,
                                                                    int blocks, int block_threads) {
  return Answer([&]() -> Error {
    if (function == nullptr) return cudaErrorInvalidDeviceFunction;
    if (bytes == nullptr || blocks <= 0 || block_threads <= 0) return cudaErrorInvalidValue;
    return OnCurrentDevice([&](Session&, Link& link) -> Error {
      LoadedKernel* kernel = nullptr;
      CUSPAN_RETURN_IF_FAILED(FindKernel(link, function, &kernel));
      KernelAvailableShared op;
      op.kernel = kernel->handle;
      op.blocks = blocks;
      op.block_threads = block_threads;
      KernelAvailableShared::Reply reply;
      CUSPAN_RETURN_IF_FAILED(link.Call(op, &reply));
      *bytes = reply.bytes;
      return cudaSuccess;
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void* function,
                                                         const cudaLaunchConfig_t* config) {
  return Answer([&] { return AskAboutClusters(clusters, function, config, false); });
}

CUSPAN_EXPORT cudaError_t cudaOccupancyMaxPotentialClusterSize(int* blocks, const void* function,
                                                               const cudaLaunchConfig_t* config) {
  return Answer([&] { return AskAboutClusters(blocks, function, config, true); });
}

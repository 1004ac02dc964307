// Occupancy: blocks of a kernel per multiprocessor.
#include "interpose/calls/occupancy.h"

#include <algorithm>

#include "interpose/calls/base/attributes.h"
#include "interpose/calls/kernel.h"
#include "interpose/driver/launch.h"

namespace cuspan {
namespace {

// A kernel on the current device, or in its module's own context.
struct Loaded {
  explicit Loaded(ContextConnection& current) : current(&current) {}
  ContextConnection& connection() const { return owner != nullptr ? *owner : *current; }

  ContextConnection* const current;
  std::shared_ptr<ContextConnection> owner;
  LoadedKernel* kernel = nullptr;
};

Error FindLoaded(Session& session, const FunctionRecord& record, Loaded* loaded) {
  CUSPAN_RETURN_IF_FAILED(FindOwner(session, record, &loaded->owner));
  return FindKernel(loaded->connection(), record, &loaded->kernel);
}

Error FindLoaded(Session& session, CUfunction function, Loaded* loaded) {
  const FunctionRecord* record = nullptr;
  if (FindFunction(function, &record).failed()) return CUDA_ERROR_INVALID_HANDLE;
  return FindLoaded(session, *record, loaded);
}

CUresult MaxActiveBlocks(int* blocks, CUfunction function, int block_threads, std::size_t shared,
                         unsigned flags) {
  return AnswerLocally([&](Session& session, ContextConnection& connection) -> Error {
    if (blocks == nullptr || block_threads <= 0 || flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)
      return CUDA_ERROR_INVALID_VALUE;
    Loaded loaded(connection);
    CUSPAN_RETURN_IF_FAILED(FindLoaded(session, function, &loaded));
    return ActiveBlocks(loaded.connection(), *loaded.kernel, block_threads, shared, flags, blocks);
  });
}

// Finds the block size with the most active threads. Sizes are multiples of a warp, tried from the
// largest; the first of equals wins. CUDA's own headers count in the same way.
CUresult BestBlockSize(int* grid, int* block, CUfunction function, CUoccupancyB2DSize shared_of,
                       std::size_t shared, int limit, unsigned flags) {
  return AnswerInContext([&](Session& session, ContextConnection& connection) -> Error {
    if (grid == nullptr || block == nullptr || limit < 0 ||
        flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)
      return CUDA_ERROR_INVALID_VALUE;
    Loaded loaded(connection);
    CUSPAN_RETURN_IF_FAILED(FindLoaded(session, function, &loaded));
    const LoadedKernel* const kernel = loaded.kernel;
    const DeviceDescription& device = session.devices().description(loaded.connection().device());
    const int warp = std::max(1, AttributeOf(device, CU_DEVICE_ATTRIBUTE_WARP_SIZE));
    const int most_threads =
        AttributeOf(device, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
    int largest = std::min(AttributeOf(device, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
                           kernel->attribute(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
    if (limit != 0) largest = std::min(largest, limit);
    int best_threads = 0;
    int best_blocks = 0;
    *block = 0;
    const int rounded = (largest + warp - 1) / warp * warp;
    for (int size = rounded; size > 0; size -= warp) {
      const int threads = std::min(size, largest);
      const std::size_t bytes = shared_of != nullptr ? shared_of(threads) : shared;
      int blocks = 0;
      CUSPAN_RETURN_IF_FAILED(ActiveBlocks(connection, *kernel, threads, bytes, flags, &blocks));
      if (blocks * threads > best_threads) {
        best_threads = blocks * threads;
        best_blocks = blocks;
        *block = threads;
      }
      if (best_threads == most_threads) break;
    }
    *grid = best_blocks * AttributeOf(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    return CUDA_SUCCESS;
  });
}

// `ask`: ActiveClusters or PotentialCluster.
CUresult AboutClusters(int* value, CUfunction function, const CUlaunchConfig* config,
                       decltype(ActiveClusters)* ask) {
  return AnswerInContext([&](Session& session, ContextConnection& connection) -> Error {
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    LaunchCall call;
    CUSPAN_RETURN_IF_FAILED(ReadConfig(config, function, &call));
    Loaded loaded(connection);
    CUSPAN_RETURN_IF_FAILED(FindLoaded(session, *call.function, &loaded));
    return ask(loaded.connection(), *loaded.kernel, call, value);
  });
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction function,
                                                                   int block_threads,
                                                                   std::size_t shared) {
  return MaxActiveBlocks(blocks, function, block_threads, shared, CU_OCCUPANCY_DEFAULT);
}

CUSPAN_EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* blocks, CUfunction function, int block_threads, std::size_t shared, unsigned flags) {
  return MaxActiveBlocks(blocks, function, block_threads, shared, flags);
}

CUSPAN_EXPORT CUresult cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction function,
                                                        CUoccupancyB2DSize shared_of,
                                                        std::size_t shared, int limit) {
  return BestBlockSize(grid, block, function, shared_of, shared, limit, CU_OCCUPANCY_DEFAULT);
}

CUSPAN_EXPORT CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* block,
                                                                 CUfunction function,
                                                                 CUoccupancyB2DSize shared_of,
                                                                 std::size_t shared, int limit,
                                                                 unsigned flags) {
  return BestBlockSize(grid, block, function, shared_of, shared, limit, flags);
}

CUSPAN_EXPORT CUresult cuOccupancyAvailableDynamicSMemPerBlock(std::size_t* bytes,
                                                               CUfunction function, int blocks,
                                                               int block_threads) {
  return AnswerInContext([&](Session& session, ContextConnection& connection) -> Error {
    if (bytes == nullptr || blocks <= 0 || block_threads <= 0) return CUDA_ERROR_INVALID_VALUE;
    Loaded loaded(connection);
    CUSPAN_RETURN_IF_FAILED(FindLoaded(session, function, &loaded));
    return AvailableShared(loaded.connection(), *loaded.kernel, blocks, block_threads, bytes);
  });
}

CUSPAN_EXPORT CUresult cuOccupancyMaxActiveClusters(int* clusters, CUfunction function,
                                                    const CUlaunchConfig* config) {
  return AboutClusters(clusters, function, config, ActiveClusters);
}

CUSPAN_EXPORT CUresult cuOccupancyMaxPotentialClusterSize(int* blocks, CUfunction function,
                                                          const CUlaunchConfig* config) {
  return AboutClusters(blocks, function, config, PotentialCluster);
}

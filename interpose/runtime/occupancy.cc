// Occupancy: blocks of a kernel per multiprocessor.
#include "interpose/calls/occupancy.h"

#include "interpose/runtime/kernel.h"
#include "interpose/runtime/launch.h"

namespace cuspan {
namespace {

Error MaxActiveBlocks(int* blocks, const void* function, int block_threads,
                      std::size_t dynamic_shared, unsigned flags) {
  if (function == nullptr) return cudaErrorInvalidDeviceFunction;
  if (blocks == nullptr || block_threads <= 0 || flags > cudaOccupancyDisableCachingOverride) {
    return cudaErrorInvalidValue;
  }
  return OnCurrentDevice([&](Session&, ContextConnection& connection) -> Error {
    LoadedKernel* kernel = nullptr;
    CUSPAN_RETURN_IF_FAILED(FindKernel(connection, function, &kernel));
    return ActiveBlocks(connection, *kernel, block_threads, dynamic_shared, flags, blocks);
  });
}

// `ask`: ActiveClusters or PotentialCluster.
Error AskAboutClusters(int* value, const void* function, const cudaLaunchConfig_t* config,
                       decltype(ActiveClusters)* ask) {
  if (function == nullptr) return cudaErrorInvalidDeviceFunction;
  if (value == nullptr) return cudaErrorInvalidValue;
  LaunchCall call;
  CUSPAN_RETURN_IF_FAILED(ReadConfig(config, function, nullptr, &call));
  return OnCurrentDevice([&](Session&, ContextConnection& connection) -> Error {
    LoadedKernel* kernel = nullptr;
    CUSPAN_RETURN_IF_FAILED(FindKernel(connection, *call.function, &kernel));
    return ask(connection, *kernel, call, value);
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
    return OnCurrentDevice([&](Session&, ContextConnection& connection) -> Error {
      LoadedKernel* kernel = nullptr;
      CUSPAN_RETURN_IF_FAILED(FindKernel(connection, function, &kernel));
      return AvailableShared(connection, *kernel, blocks, block_threads, bytes);
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void* function,
                                                         const cudaLaunchConfig_t* config) {
  return Answer([&] { return AskAboutClusters(clusters, function, config, ActiveClusters); });
}

CUSPAN_EXPORT cudaError_t cudaOccupancyMaxPotentialClusterSize(int* blocks, const void* function,
                                                               const cudaLaunchConfig_t* config) {
  return Answer([&] { return AskAboutClusters(blocks, function, config, PotentialCluster); });
}

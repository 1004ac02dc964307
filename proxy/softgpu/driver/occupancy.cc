// cuOccupancy*.
#include "proxy/softgpu/driver/occupancy.h"

#include <algorithm>

#include "proxy/softgpu/driver/errors.h"
#include "proxy/softgpu/driver/limits.h"
#include "proxy/softgpu/driver/state.h"

namespace cuspan::softgpu {
namespace {

constexpr std::size_t kSharedGranularity = 128;

std::uint32_t WholeWarps(std::uint32_t threads) {
  return (threads + kWarpLanes - 1) / kWarpLanes * kWarpLanes;
}

}  // namespace

int BlocksPerProcessor(const KernelInfo& kernel, std::uint32_t threads,
                       std::size_t dynamic_shared) {
  if (threads == 0 || threads > kernel.max_threads) return 0;
  const std::size_t shared = kernel.static_shared_bytes + dynamic_shared;
  if (dynamic_shared > limits::kSharedPerBlockOptIn || shared > limits::kSharedPerBlockOptIn) {
    return 0;
  }
  const std::size_t charged = (shared + limits::kSharedReserved + kSharedGranularity - 1) /
                              kSharedGranularity * kSharedGranularity;
  const std::uint32_t by_registers =
      limits::kRegisters / (limits::kRegistersPerThread * WholeWarps(threads));
  return static_cast<int>(std::min<std::size_t>({limits::kThreadsPerProcessor / WholeWarps(threads),
                                                 limits::kBlocksPerProcessor, by_registers,
                                                 limits::kSharedPerProcessor / charged}));
}

std::optional<std::size_t> SharedForBlocks(const Function& function, int blocks,
                                           std::uint32_t threads) {
  if (blocks <= 0 || threads == 0 || BlocksPerProcessor(function.info(), threads, 0) < blocks) {
    return std::nullopt;
  }
  const std::size_t each = limits::kSharedPerProcessor / static_cast<std::size_t>(blocks) /
                           kSharedGranularity * kSharedGranularity;
  // NVIDIA's driver does not subtract the system's part here (observed on an H200).
  const std::size_t own = function.info().static_shared_bytes;
  if (each < own) return std::nullopt;
  return std::min(each - own, function.dynamic_shared_limit());
}

CUSPAN_SOFT_API CUresult CUDAAPI cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* blocks, CUfunction handle, int threads, std::size_t dynamic_shared, unsigned flags) {
  CUSPAN_SOFT_ENTER(driver);
  std::shared_ptr<Function> function;
  CUSPAN_SOFT_RETURN_IF_ERROR(driver->FindFunction(handle, &function));
  if (blocks == nullptr || threads <= 0 ||
      (flags != CU_OCCUPANCY_DEFAULT && flags != CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *blocks =
      BlocksPerProcessor(function->info(), static_cast<std::uint32_t>(threads), dynamic_shared);
  return CUDA_SUCCESS;
}

CUSPAN_SOFT_API CUresult CUDAAPI cuOccupancyAvailableDynamicSMemPerBlock(std::size_t* bytes,
                                                                         CUfunction handle,
                                                                         int blocks, int threads) {
  CUSPAN_SOFT_ENTER(driver);
  std::shared_ptr<Function> function;
  CUSPAN_SOFT_RETURN_IF_ERROR(driver->FindFunction(handle, &function));
  if (bytes == nullptr || threads <= 0) return CUDA_ERROR_INVALID_VALUE;
  const std::optional<std::size_t> each =
      SharedForBlocks(*function, blocks, static_cast<std::uint32_t>(threads));
  if (!each.has_value()) return CUDA_ERROR_INVALID_VALUE;
  *bytes = *each;
  return CUDA_SUCCESS;
}

}  // namespace cuspan::softgpu

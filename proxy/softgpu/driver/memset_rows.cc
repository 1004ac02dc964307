// cuMemsetD2D8Async: fills of rows that lie a pitch apart.
#include <memory>

#include "proxy/softgpu/driver/errors.h"
#include "proxy/softgpu/driver/state.h"
#include "proxy/softgpu/rt/transfer.h"

namespace cuspan::softgpu {

CUSPAN_SOFT_API CUresult CUDAAPI cuMemsetD2D8Async(CUdeviceptr address, std::size_t pitch,
                                                   unsigned char value, std::size_t width,
                                                   std::size_t rows, CUstream stream) {
  CUSPAN_SOFT_ENTER(driver);
  StreamEntry entry;
  CUSPAN_SOFT_RETURN_IF_ERROR(driver->FindStream(stream, &entry));
  if (width == 0 || rows == 0) return CUDA_SUCCESS;
  std::size_t bytes = 0;
  if (width > pitch || __builtin_mul_overflow(pitch, rows - 1, &bytes) ||
      __builtin_add_overflow(bytes, width, &bytes) ||
      !driver->addresses.Accessible(address, bytes, entry.context->device(), true)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (std::size_t row = 0; row < rows; ++row) {
    entry.context->streams().Enqueue(
        *entry.stream,
        std::make_unique<FillTask>(reinterpret_cast<void*>(address + row * pitch), value, 1, width,
                                   entry.stream->priority(), entry.context));
  }
  return CUDA_SUCCESS;
}

}  // namespace cuspan::softgpu

// cuMemset*.
#include "proxy/softgpu/driver/fill.h"

#include "proxy/softgpu/driver/errors.h"

namespace cuspan::softgpu {
namespace {

CUresult FillAsync(const Fill& fill, CUstream stream) {
  CUSPAN_SOFT_ENTER(driver);
  StreamEntry entry;
  CUSPAN_SOFT_RETURN_IF_ERROR(driver->FindStream(stream, &entry));
  CUSPAN_SOFT_RETURN_IF_ERROR(CheckFill(*driver, *entry.context, fill));
  if (IsEmpty(fill)) return CUDA_SUCCESS;
  entry.context->streams().Enqueue(
      *entry.stream, std::make_unique<FillTask>(fill, entry.stream->priority(), entry.context));
  return CUDA_SUCCESS;
}

}  // namespace

CUresult CheckFill(const Driver& driver, const Context& context, const Fill& fill) {
  if (IsEmpty(fill)) return CUDA_SUCCESS;
  std::size_t row_bytes = 0, bytes = 0;
  if (fill.target % fill.width != 0 ||
      __builtin_mul_overflow(fill.count, std::size_t{fill.width}, &row_bytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (fill.rows > 1 && (fill.pitch < row_bytes || fill.pitch % fill.width != 0 ||
                        __builtin_mul_overflow(fill.pitch, fill.rows - 1, &bytes))) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (__builtin_add_overflow(bytes, row_bytes, &bytes) ||
      !driver.addresses.Accessible(fill.target, bytes, context.device(), true)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUSPAN_SOFT_API CUresult CUDAAPI cuMemsetD8Async(CUdeviceptr address, unsigned char value,
                                                 std::size_t count, CUstream stream) {
  return FillAsync({.target = address, .value = value, .width = 1, .count = count}, stream);
}

CUSPAN_SOFT_API CUresult CUDAAPI cuMemsetD16Async(CUdeviceptr address, unsigned short value,
                                                  std::size_t count, CUstream stream) {
  return FillAsync({.target = address, .value = value, .width = 2, .count = count}, stream);
}

CUSPAN_SOFT_API CUresult CUDAAPI cuMemsetD32Async(CUdeviceptr address, unsigned value,
                                                  std::size_t count, CUstream stream) {
  return FillAsync({.target = address, .value = value, .width = 4, .count = count}, stream);
}

CUSPAN_SOFT_API CUresult CUDAAPI cuMemsetD2D8Async(CUdeviceptr address, std::size_t pitch,
                                                   unsigned char value, std::size_t width,
                                                   std::size_t rows, CUstream stream) {
  return FillAsync(
      {.target = address, .pitch = pitch, .value = value, .width = 1, .count = width, .rows = rows},
      stream);
}

}  // namespace cuspan::softgpu

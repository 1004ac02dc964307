// cuMemcpy2D* and cuMemcpy3D*: copies of boxes of bytes between host memory, device memory and
// arrays.
#include "proxy/softgpu/driver/pitched_copy.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "proxy/softgpu/driver/array.h"
#include "proxy/softgpu/driver/errors.h"

namespace cuspan::softgpu {
namespace {

// One side of a copy, as described by the caller.
struct Location {
  std::size_t x, y, z, level;
  CUmemorytype type;
  const void* host;
  CUdeviceptr device;
  CUarray array;
  std::size_t pitch, height;
};

struct Extent {
  std::size_t width, height, depth;  // Bytes, rows, slices.
};

struct Resolved {
  BoxSide side;
  bool host = false;  // Host memory.
  std::uint64_t begin = 0, bytes = 0;
  std::shared_ptr<Array> array;
};

CUresult ResolveArray(Driver& driver, const Location& place, const Extent& extent, Resolved* out) {
  const auto entry = driver.arrays.Find(Number(place.array));
  if (entry == nullptr) return driver.InvalidHandle();
  const Image& image = entry->image();
  const std::size_t texel = entry->array->format().bytes();
  const std::size_t row = std::size_t{image.width} * texel;
  const auto within = [](std::size_t from, std::size_t count, std::size_t size) {
    return from <= size && count <= size - from;
  };
  if (!within(place.x, extent.width, row) || !within(place.y, extent.height, image.height) ||
      !within(place.z, extent.depth, image.depth)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  out->array = entry->array;
  out->side = {image.base + place.z * image.slice_bytes + place.y * image.row_bytes + place.x,
               image.row_bytes, image.slice_bytes};
  return CUDA_SUCCESS;
}

// Finds the memory of one side of a copy, and checks the access by `context`'s device.
CUresult Resolve(Driver& driver, const Context& context, const Location& place,
                 const Extent& extent, bool writes, Resolved* out) {
  if (place.level != 0) return CUDA_ERROR_INVALID_VALUE;
  if (place.type == CU_MEMORYTYPE_ARRAY) return ResolveArray(driver, place, extent, out);
  std::uint64_t base = 0;
  switch (place.type) {
    case CU_MEMORYTYPE_HOST:
      base = reinterpret_cast<std::uint64_t>(place.host);
      break;
    case CU_MEMORYTYPE_DEVICE:
    case CU_MEMORYTYPE_UNIFIED:
      base = place.device;
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  if (base == 0) return CUDA_ERROR_INVALID_VALUE;
  out->host = place.type == CU_MEMORYTYPE_HOST ||
              (place.type == CU_MEMORYTYPE_UNIFIED && !driver.addresses.IsDevice(base));
  std::size_t pitch = place.pitch;
  std::size_t height = place.height;
  std::size_t row_end = 0, offset = 0, bytes = 0;
  if (__builtin_add_overflow(place.x, extent.width, &row_end)) return CUDA_ERROR_INVALID_VALUE;
  if (pitch == 0) pitch = row_end;
  // A copy of one row ignores the pitch.
  const bool one_row = extent.height == 1 && extent.depth == 1 && place.y == 0 && place.z == 0;
  if (pitch < row_end && !one_row) return CUDA_ERROR_INVALID_VALUE;
  if (height == 0) height = place.y + extent.height;
  if (extent.depth > 1 && height < place.y + extent.height) return CUDA_ERROR_INVALID_VALUE;
  std::size_t slice = 0;
  std::size_t before = 0, rows = 0, slices = 0;
  if (__builtin_mul_overflow(pitch, height, &slice) ||
      __builtin_mul_overflow(slice, place.z, &before) ||
      __builtin_mul_overflow(pitch, place.y, &rows) ||
      __builtin_add_overflow(before, rows, &offset) ||
      __builtin_add_overflow(offset, place.x, &offset) ||
      __builtin_mul_overflow(slice, extent.depth - 1, &slices) ||
      __builtin_mul_overflow(pitch, extent.height - 1, &rows) ||
      __builtin_add_overflow(slices, rows, &bytes) ||
      __builtin_add_overflow(bytes, extent.width, &bytes) || offset > UINT64_MAX - base ||
      bytes > UINT64_MAX - base - offset) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  out->begin = base + offset;
  out->bytes = bytes;
  // Gaps between rows need not be mapped; the first and the last row must be.
  if (!out->host) {
    const int device = context.device();
    if (!driver.addresses.Accessible(out->begin, extent.width, device, writes) ||
        !driver.addresses.Accessible(out->begin + bytes - extent.width, extent.width, device,
                                     writes)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  out->side = {reinterpret_cast<std::uint8_t*>(out->begin), pitch, slice};
  return CUDA_SUCCESS;
}

CUresult Prepare(Driver& driver, const Context& context, const Location& source,
                 const Location& target, const Extent& extent, BoxCopy* out) {
  out->width = extent.width;
  out->height = extent.height;
  out->depth = extent.depth;
  if (out->empty()) return CUDA_SUCCESS;
  Resolved from, to;
  CUSPAN_SOFT_RETURN_IF_ERROR(Resolve(driver, context, source, extent, false, &from));
  CUSPAN_SOFT_RETURN_IF_ERROR(Resolve(driver, context, target, extent, true, &to));
  for (const Resolved* side : {&from, &to}) {
    if (side->host && !driver.host_memory.Contains(side->begin, side->bytes))
      out->unregistered = true;
  }
  out->source = from.side;
  out->target = to.side;
  out->arrays = std::make_shared<std::pair<std::shared_ptr<Array>, std::shared_ptr<Array>>>(
      std::move(from.array), std::move(to.array));
  return CUDA_SUCCESS;
}

CUresult PrepareBoxCopy(Driver& driver, const Context& context, const CUDA_MEMCPY2D& copy,
                        BoxCopy* out) {
  return Prepare(driver, context,
                 {copy.srcXInBytes, copy.srcY, 0, 0, copy.srcMemoryType, copy.srcHost,
                  copy.srcDevice, copy.srcArray, copy.srcPitch, 0},
                 {copy.dstXInBytes, copy.dstY, 0, 0, copy.dstMemoryType, copy.dstHost,
                  copy.dstDevice, copy.dstArray, copy.dstPitch, 0},
                 {copy.WidthInBytes, copy.Height, 1}, out);
}

// `Description` is CUDA_MEMCPY2D or CUDA_MEMCPY3D.
template <typename Description>
CUresult Copy(const Description* description, CUstream stream, bool wait) {
  if (description == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUSPAN_SOFT_ENTER(driver);
  StreamEntry entry;
  CUSPAN_SOFT_RETURN_IF_ERROR(driver->FindStream(stream, &entry));
  BoxCopy copy;
  CUSPAN_SOFT_RETURN_IF_ERROR(PrepareBoxCopy(*driver, *entry.context, *description, &copy));
  if (copy.empty()) return CUDA_SUCCESS;
  const OperationPtr operation = entry.context->streams().Enqueue(
      *entry.stream, MakeBoxCopyTask(copy, entry.stream->priority(), entry.context));
  if (!wait && !copy.unregistered) return CUDA_SUCCESS;
  operation->Wait();
  return entry.context->error();
}

}  // namespace

CUresult PrepareBoxCopy(Driver& driver, const Context& context, const CUDA_MEMCPY3D& copy,
                        BoxCopy* out) {
  return Prepare(driver, context,
                 {copy.srcXInBytes, copy.srcY, copy.srcZ, copy.srcLOD, copy.srcMemoryType,
                  copy.srcHost, copy.srcDevice, copy.srcArray, copy.srcPitch, copy.srcHeight},
                 {copy.dstXInBytes, copy.dstY, copy.dstZ, copy.dstLOD, copy.dstMemoryType,
                  copy.dstHost, copy.dstDevice, copy.dstArray, copy.dstPitch, copy.dstHeight},
                 {copy.WidthInBytes, copy.Height, copy.Depth}, out);
}

std::unique_ptr<Task> MakeBoxCopyTask(const BoxCopy& copy, int priority,
                                      std::shared_ptr<Context> context) {
  return std::make_unique<BoxCopyTask>(copy.target, copy.source, copy.width, copy.height,
                                       copy.depth, priority, std::move(context), copy.arrays);
}

CUSPAN_SOFT_API CUresult CUDAAPI cuMemcpy2DAsync(const CUDA_MEMCPY2D* copy, CUstream stream) {
  return Copy(copy, stream, false);
}

// Equals an aligned copy: pitches need no alignment here.
CUSPAN_SOFT_API CUresult CUDAAPI cuMemcpy2DUnaligned(const CUDA_MEMCPY2D* copy) {
  return Copy<CUDA_MEMCPY2D>(copy, nullptr, true);
}

CUSPAN_SOFT_API CUresult CUDAAPI cuMemcpy3DAsync(const CUDA_MEMCPY3D* copy, CUstream stream) {
  return Copy(copy, stream, false);
}

}  // namespace cuspan::softgpu

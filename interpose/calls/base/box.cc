#include "interpose/calls/base/box.h"

namespace cuspan {
namespace {

// Finds the start of the box in memory; its rows and planes must not overlap.
Error SideInMemory(const BoxEnd& end, const BoxExtent& extent, BoxSide* out) {
  if (end.pointer == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::uint64_t row_end = 0;
  if (__builtin_add_overflow(end.x, extent.width, &row_end)) return CUDA_ERROR_INVALID_VALUE;
  if (row_end > end.pitch && (extent.rows > 1 || extent.planes > 1 || end.y > 0 || end.z > 0))
    return cudaErrorInvalidPitchValue;
  if (extent.planes > 1 || end.z > 0) {
    if (extent.rows > end.plane_rows || end.y > end.plane_rows - extent.rows)
      return CUDA_ERROR_INVALID_VALUE;
  }
  std::uint64_t offset = 0;
  if (__builtin_mul_overflow(end.z, end.plane_rows, &offset) ||
      __builtin_add_overflow(offset, end.y, &offset) ||
      __builtin_mul_overflow(offset, end.pitch, &offset) ||
      __builtin_add_overflow(offset, end.x, &offset)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  out->pointer = static_cast<const std::byte*>(end.pointer) + offset;
  out->pitch = end.pitch;
  out->plane_rows = end.plane_rows;
  return CUDA_SUCCESS;
}

Error SideOf(Session& session, const BoxEnd& end, const BoxExtent& extent, BoxSide* out) {
  *out = {};
  if (end.array == 0) return SideInMemory(end, extent, out);
  CUSPAN_RETURN_IF_FAILED(FindArray(session, end.array, &out->array));
  out->x = end.x;
  out->y = end.y;
  out->z = end.z;
  return CUDA_SUCCESS;
}

}  // namespace

Error FindArray(Session& session, std::uint64_t array, std::shared_ptr<const Array>* found) {
  *found = session.arrays().Find(array);
  if (*found == nullptr || (*found)->levels != 0) return CUDA_ERROR_INVALID_HANDLE;
  return CUDA_SUCCESS;
}

BoxRequest BoxOfRun(void* destination, const void* source, std::size_t bytes, CopySides sides) {
  BoxRequest out;
  out.destination.pointer = destination;
  out.source.pointer = const_cast<void*>(source);
  for (BoxEnd* end : {&out.destination, &out.source}) {
    end->pitch = bytes;
    end->plane_rows = 1;
  }
  out.extent = {bytes, 1, 1};
  out.sides = sides;
  return out;
}

Error DescribeBox(Session& session, const BoxRequest& request, bool asynchronous, BoxCopy* copy) {
  *copy = {};
  copy->sides = request.sides;
  copy->extent = request.extent;
  if (request.extent.width == 0 || request.extent.rows == 0 || request.extent.planes == 0)
    return CUDA_SUCCESS;
  copy->asynchronous = asynchronous;
  copy->destination_device = request.destination_device;
  copy->source_device = request.source_device;
  CUSPAN_RETURN_IF_FAILED(SideOf(session, request.destination, request.extent, &copy->destination));
  return SideOf(session, request.source, request.extent, &copy->source);
}

}  // namespace cuspan

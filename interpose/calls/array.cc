#include "interpose/calls/array.h"

#include <algorithm>
#include <bit>

namespace cuspan {
namespace {

constexpr unsigned kKnownArrayFlags = CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST |
                                      CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_TEXTURE_GATHER;

bool IsCubemap(const ArrayShape& shape) { return (shape.flags & CUDA_ARRAY3D_CUBEMAP) != 0; }
bool IsLayered(const ArrayShape& shape) { return (shape.flags & CUDA_ARRAY3D_LAYERED) != 0; }

// True if the shape is valid by CUDA's table of extents at cudaMalloc3DArray. The device's driver
// checks the limits.
bool IsShape(const ArrayShape& shape) {
  if (shape.width == 0) return false;
  if (IsCubemap(shape)) {
    if (shape.height != shape.width) return false;
    return IsLayered(shape) ? shape.depth != 0 && shape.depth % 6 == 0 : shape.depth == 6;
  }
  if (IsLayered(shape)) return shape.depth != 0;
  return shape.depth == 0 || shape.height != 0;
}

// Number of levels until halving reaches one element.
unsigned MostLevels(const ArrayShape& shape) {
  std::uint64_t largest = std::max(shape.width, shape.height);
  if (!IsLayered(shape) && !IsCubemap(shape)) largest = std::max(largest, shape.depth);
  return static_cast<unsigned>(std::bit_width(largest));
}

}  // namespace

Error CreateArray(const ArrayShape& shape, unsigned levels, std::uint64_t* array) {
  if ((shape.flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)) != 0)
    return NotSupported("a sparse array, or one with deferred mapping");
  if ((shape.flags & ~kKnownArrayFlags) != 0 || !IsShape(shape)) return CUDA_ERROR_INVALID_VALUE;
  return WithSession([&](Session& session) -> Error {
    std::shared_ptr<ContextConnection> connection;
    CUSPAN_RETURN_IF_FAILED(session.devices().OpenCurrent(&connection));
    return session.arrays().Create(connection, shape, std::min(levels, MostLevels(shape)), array);
  });
}

Error DestroyArray(std::uint64_t array, bool mipmapped) {
  return WithSession([&](Session& session) -> Error {
    if (array == 0) return CUDA_SUCCESS;
    const auto known = session.arrays().Find(array);
    if (known == nullptr || (known->levels != 0) != mipmapped) return CUDA_ERROR_INVALID_HANDLE;
    return session.arrays().Destroy(known->handle);
  });
}

Error PlaneOfArray(std::uint64_t array) {
  CUSPAN_RETURN_IF_FAILED(WithArray(array, [](const Array&) {}));
  return CUDA_ERROR_INVALID_VALUE;
}

Error LevelOfArray(std::uint64_t mipmap, unsigned level, std::uint64_t* array) {
  return WithSession(
      [&](Session& session) -> Error { return session.arrays().LevelOf(mipmap, level, array); });
}

}  // namespace cuspan

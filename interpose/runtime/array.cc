// Arrays and mipmapped arrays.
#include <algorithm>
#include <bit>

#include "interpose/runtime/array_format.h"
#include "interpose/runtime/entry.h"

namespace cuspan {
namespace {

constexpr unsigned kArrayFlags =
    cudaArrayLayered | cudaArraySurfaceLoadStore | cudaArrayCubemap | cudaArrayTextureGather;

bool IsCubemap(unsigned flags) { return (flags & cudaArrayCubemap) != 0; }
bool IsLayered(unsigned flags) { return (flags & cudaArrayLayered) != 0; }

// Whether there are arrays of this shape: CUDA's table of extents at cudaMalloc3DArray,
// but for the limits, which the device's driver knows.
bool IsShape(const cudaExtent& extent, unsigned flags) {
  if (extent.width == 0) return false;
  if (IsCubemap(flags)) {
    if (extent.height != extent.width) return false;
    return IsLayered(flags) ? extent.depth != 0 && extent.depth % 6 == 0 : extent.depth == 6;
  }
  if (IsLayered(flags)) return extent.depth != 0;
  return extent.depth == 0 || extent.height != 0;
}

struct ArrayRequest {
  const cudaChannelFormatDesc* desc;
  cudaExtent extent;
  unsigned flags;
  unsigned levels = 0;
};

template <typename Handle>
Error Create(const ArrayRequest& request, Handle* array) {
  if (array == nullptr || request.desc == nullptr) return cudaErrorInvalidValue;
  *array = nullptr;
  if ((request.flags & (cudaArraySparse | cudaArrayDeferredMapping)) != 0)
    return NotSupported("an array with cudaArraySparse or cudaArrayDeferredMapping");
  if ((request.flags & ~kArrayFlags) != 0) return cudaErrorInvalidValue;
  const std::optional<ElementFormat> format = FormatOf(*request.desc);
  if (!format) return cudaErrorInvalidChannelDescriptor;
  if (!IsShape(request.extent, request.flags)) return cudaErrorInvalidValue;
  return WithSession([&](Session& session) -> Error {
    std::shared_ptr<Link> link;
    CUSPAN_RETURN_IF_FAILED(session.CurrentLink(&link));
    // The runtime's flags are the driver's.
    const ArrayShape shape{request.extent.width, request.extent.height, request.extent.depth,
                           format->format,       format->channels,      request.flags};
    std::uint64_t made = 0;
    CUSPAN_RETURN_IF_FAILED(session.arrays().Create(link, shape, request.levels, &made));
    *array = HandleOf<Handle>(made);
    return cudaSuccess;
  });
}

// As many levels as halving leaves something of; more are cut to that.
unsigned MostLevels(const cudaExtent& extent, unsigned flags) {
  std::size_t largest = std::max(extent.width, extent.height);
  if ((flags & (cudaArrayLayered | cudaArrayCubemap)) == 0)
    largest = std::max(largest, extent.depth);
  return static_cast<unsigned>(std::bit_width(largest));
}

// `mipmapped` tells which of the two functions was called.
Error Destroy(const void* array, bool mipmapped) {
  return WithSession([&](Session& session) -> Error {
    if (array == nullptr) return cudaSuccess;
    const auto known = session.arrays().Find(NumberOf(array));
    if (known == nullptr || (known->levels != 0) != mipmapped)
      return cudaErrorInvalidResourceHandle;
    return session.arrays().Destroy(known->handle);
  });
}

// use(const Array&) for a plain array or a level.
template <typename Use>
Error AboutArray(cudaArray_const_t array, Use&& use) {
  return WithSession([&](Session& session) -> Error {
    const auto known = session.arrays().Find(NumberOf(array));
    if (known == nullptr || known->levels != 0) return cudaErrorInvalidResourceHandle;
    use(*known);
    return cudaSuccess;
  });
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w,
                                                          cudaChannelFormatKind kind) {
  return {x, y, z, w, kind};
}

CUSPAN_EXPORT cudaError_t cudaMallocArray(cudaArray_t* array, const cudaChannelFormatDesc* desc,
                                          std::size_t width, std::size_t height, unsigned flags) {
  return Answer([&]() -> Error {
    if ((flags & (cudaArrayLayered | cudaArrayCubemap)) != 0) return cudaErrorInvalidValue;
    return Create({desc, {width, height, 0}, flags}, array);
  });
}

CUSPAN_EXPORT cudaError_t cudaMalloc3DArray(cudaArray_t* array, const cudaChannelFormatDesc* desc,
                                            cudaExtent extent, unsigned flags) {
  return Answer([&] { return Create({desc, extent, flags}, array); });
}

CUSPAN_EXPORT cudaError_t cudaFreeArray(cudaArray_t array) {
  return Answer([&] { return Destroy(array, false); });
}

CUSPAN_EXPORT cudaError_t cudaMallocMipmappedArray(cudaMipmappedArray_t* array,
                                                   const cudaChannelFormatDesc* desc,
                                                   cudaExtent extent, unsigned levels,
                                                   unsigned flags) {
  return Answer([&]() -> Error {
    if (levels == 0) return cudaErrorInvalidValue;
    return Create({desc, extent, flags, std::min(levels, MostLevels(extent, flags))}, array);
  });
}

CUSPAN_EXPORT cudaError_t cudaFreeMipmappedArray(cudaMipmappedArray_t array) {
  return Answer([&] { return Destroy(array, true); });
}

CUSPAN_EXPORT cudaError_t cudaGetMipmappedArrayLevel(cudaArray_t* array,
                                                     cudaMipmappedArray_const_t mipmap,
                                                     unsigned level) {
  return Answer([&]() -> Error {
    if (array == nullptr) return cudaErrorInvalidValue;
    return WithSession([&](Session& session) -> Error {
      std::uint64_t made = 0;
      CUSPAN_RETURN_IF_FAILED(session.arrays().LevelOf(NumberOf(mipmap), level, &made));
      *array = HandleOf<cudaArray_t>(made);
      return cudaSuccess;
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaArrayGetInfo(cudaChannelFormatDesc* desc, cudaExtent* extent,
                                           unsigned* flags, cudaArray_t array) {
  return Answer([&] {
    return AboutArray(array, [&](const Array& known) {
      if (desc != nullptr) *desc = DescOf({known.shape.format, known.shape.channels});
      if (extent != nullptr) *extent = {known.shape.width, known.shape.height, known.shape.depth};
      if (flags != nullptr) *flags = known.shape.flags;
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaGetChannelDesc(cudaChannelFormatDesc* desc, cudaArray_const_t array) {
  return Answer([&]() -> Error {
    if (desc == nullptr) return cudaErrorInvalidValue;
    return AboutArray(array, [&](const Array& known) {
      *desc = DescOf({known.shape.format, known.shape.channels});
    });
  });
}

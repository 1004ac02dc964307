// Arrays and mipmapped arrays.
#include "interpose/calls/array.h"

#include "interpose/runtime/array_format.h"
#include "interpose/runtime/entry.h"

namespace cuspan {
namespace {

template <typename Handle>
Error Create(const cudaChannelFormatDesc* desc, const cudaExtent& extent, unsigned flags,
             unsigned levels, Handle* array) {
  if (array == nullptr || desc == nullptr) return cudaErrorInvalidValue;
  *array = nullptr;
  const std::optional<ElementFormat> format = FormatOf(*desc);
  if (!format) return cudaErrorInvalidChannelDescriptor;
  std::uint64_t made = 0;
  // The runtime's flags equal the driver's.
  CUSPAN_RETURN_IF_FAILED(CreateArray(
      {extent.width, extent.height, extent.depth, format->format, format->channels, flags}, levels,
      &made));
  *array = HandleOf<Handle>(made);
  return cudaSuccess;
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
    return Create(desc, {width, height, 0}, flags, 0, array);
  });
}

CUSPAN_EXPORT cudaError_t cudaMalloc3DArray(cudaArray_t* array, const cudaChannelFormatDesc* desc,
                                            cudaExtent extent, unsigned flags) {
  return Answer([&] { return Create(desc, extent, flags, 0, array); });
}

CUSPAN_EXPORT cudaError_t cudaFreeArray(cudaArray_t array) {
  return Answer([&] { return DestroyArray(NumberOf(array), false); });
}

CUSPAN_EXPORT cudaError_t cudaMallocMipmappedArray(cudaMipmappedArray_t* array,
                                                   const cudaChannelFormatDesc* desc,
                                                   cudaExtent extent, unsigned levels,
                                                   unsigned flags) {
  return Answer([&]() -> Error {
    if (levels == 0) return cudaErrorInvalidValue;
    return Create(desc, extent, flags, levels, array);
  });
}

CUSPAN_EXPORT cudaError_t cudaFreeMipmappedArray(cudaMipmappedArray_t array) {
  return Answer([&] { return DestroyArray(NumberOf(array), true); });
}

CUSPAN_EXPORT cudaError_t cudaGetMipmappedArrayLevel(cudaArray_t* array,
                                                     cudaMipmappedArray_const_t mipmap,
                                                     unsigned level) {
  return Answer([&]() -> Error {
    if (array == nullptr) return cudaErrorInvalidValue;
    std::uint64_t made = 0;
    CUSPAN_RETURN_IF_FAILED(LevelOfArray(NumberOf(mipmap), level, &made));
    *array = HandleOf<cudaArray_t>(made);
    return cudaSuccess;
  });
}

CUSPAN_EXPORT cudaError_t cudaArrayGetInfo(cudaChannelFormatDesc* desc, cudaExtent* extent,
                                           unsigned* flags, cudaArray_t array) {
  return AnswerUnlessFaulted([&] {
    return WithArray(NumberOf(array), [&](const Array& known) {
      if (desc != nullptr) *desc = DescOf({known.shape.format, known.shape.channels});
      if (extent != nullptr) *extent = {known.shape.width, known.shape.height, known.shape.depth};
      if (flags != nullptr) *flags = known.shape.flags;
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaGetChannelDesc(cudaChannelFormatDesc* desc, cudaArray_const_t array) {
  return AnswerUnlessFaulted([&]() -> Error {
    if (desc == nullptr) return cudaErrorInvalidValue;
    return WithArray(NumberOf(array), [&](const Array& known) {
      *desc = DescOf({known.shape.format, known.shape.channels});
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaArrayGetPlane(cudaArray_t* plane, cudaArray_t array,
                                            unsigned /*index*/) {
  return AnswerUnlessFaulted([&]() -> Error {
    return plane == nullptr ? Error(cudaErrorInvalidValue) : PlaneOfArray(NumberOf(array));
  });
}

CUSPAN_EXPORT cudaError_t cudaArrayGetMemoryRequirements(cudaArrayMemoryRequirements* /*out*/,
                                                         cudaArray_t /*array*/, int /*device*/) {
  return Answer([] { return MappedArrayError(); });
}

CUSPAN_EXPORT cudaError_t cudaMipmappedArrayGetMemoryRequirements(
    cudaArrayMemoryRequirements* /*out*/, cudaMipmappedArray_t /*array*/, int /*device*/) {
  return Answer([] { return MappedArrayError(); });
}

CUSPAN_EXPORT cudaError_t cudaArrayGetSparseProperties(cudaArraySparseProperties* /*out*/,
                                                       cudaArray_t /*array*/) {
  return Answer([] { return MappedArrayError(); });
}

CUSPAN_EXPORT cudaError_t cudaMipmappedArrayGetSparseProperties(cudaArraySparseProperties* /*out*/,
                                                                cudaMipmappedArray_t /*array*/) {
  return Answer([] { return MappedArrayError(); });
}

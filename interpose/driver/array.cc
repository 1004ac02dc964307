// Arrays and mipmapped arrays.
#include "interpose/calls/array.h"

#include <algorithm>

#include "interpose/driver/entry.h"

namespace cuspan {
namespace {

Error Create(const CUDA_ARRAY3D_DESCRIPTOR& shape, unsigned levels, std::uint64_t* array) {
  if (shape.NumChannels != 1 && shape.NumChannels != 2 && shape.NumChannels != 4)
    return CUDA_ERROR_INVALID_VALUE;
  return CreateArray({shape.Width, shape.Height, shape.Depth,
                      static_cast<std::uint32_t>(shape.Format), shape.NumChannels, shape.Flags},
                     levels, array);
}

// Stores the handle from create(std::uint64_t*) → Error in *array.
template <typename Handle, typename Make>
CUresult Give(Handle* array, const void* description, Make&& create) {
  return AnswerInContext([&](Session&) -> Error {
    if (array == nullptr || description == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::uint64_t made = 0;
    CUSPAN_RETURN_IF_FAILED(create(&made));
    *array = HandleOf<Handle>(made);
    return CUDA_SUCCESS;
  });
}

// Calls describe(const ArrayShape&) for an array, or a level of one, to fill *out.
template <typename Use>
CUresult Describe(CUarray array, const void* out, Use&& describe) {
  return AnswerInContext([&](Session&) -> Error {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return WithArray(NumberOf(array), [&](const Array& known) { describe(known.shape); });
  });
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT CUresult cuArrayCreate_v2(CUarray* array, const CUDA_ARRAY_DESCRIPTOR* shape) {
  return Give(array, shape, [&](std::uint64_t* made) {
    return Create({shape->Width, shape->Height, 0, shape->Format, shape->NumChannels, 0}, 0, made);
  });
}

CUSPAN_EXPORT CUresult cuArray3DCreate_v2(CUarray* array, const CUDA_ARRAY3D_DESCRIPTOR* shape) {
  return Give(array, shape, [&](std::uint64_t* made) { return Create(*shape, 0, made); });
}

CUSPAN_EXPORT CUresult cuArrayDestroy(CUarray array) {
  return AnswerInContext([&](Session&) -> Error {
    if (array == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    return DestroyArray(NumberOf(array), false);
  });
}

CUSPAN_EXPORT CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR* out, CUarray array) {
  return Describe(array, out, [&](const ArrayShape& shape) {
    *out = {shape.width, shape.height, static_cast<CUarray_format>(shape.format), shape.channels};
  });
}

CUSPAN_EXPORT CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR* out, CUarray array) {
  return Describe(array, out, [&](const ArrayShape& shape) {
    *out = {shape.width,    shape.height, shape.depth, static_cast<CUarray_format>(shape.format),
            shape.channels, shape.flags};
  });
}

CUSPAN_EXPORT CUresult cuMipmappedArrayCreate(CUmipmappedArray* array,
                                              const CUDA_ARRAY3D_DESCRIPTOR* shape,
                                              unsigned levels) {
  return Give(array, shape, [&](std::uint64_t* made) -> Error {
    return Create(*shape, std::max(levels, 1U), made);  // 0 counts as 1 (measured natively).
  });
}

CUSPAN_EXPORT CUresult cuMipmappedArrayGetLevel(CUarray* array, CUmipmappedArray mipmap,
                                                unsigned level) {
  return Give(array, array,
              [&](std::uint64_t* made) { return LevelOfArray(NumberOf(mipmap), level, made); });
}

CUSPAN_EXPORT CUresult cuMipmappedArrayDestroy(CUmipmappedArray array) {
  return AnswerInContext([&](Session&) -> Error {
    if (array == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    return DestroyArray(NumberOf(array), true);
  });
}

CUSPAN_EXPORT CUresult cuArrayGetPlane(CUarray* plane, CUarray array, unsigned /*index*/) {
  return AnswerInContext([&](Session&) -> Error {
    return plane == nullptr ? Error(CUDA_ERROR_INVALID_VALUE) : PlaneOfArray(NumberOf(array));
  });
}

CUSPAN_EXPORT CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS* /*out*/,
                                                    CUarray /*array*/, CUdevice /*device*/) {
  return AnswerInContext([](Session&) { return MappedArrayError(); });
}

CUSPAN_EXPORT CUresult cuMipmappedArrayGetMemoryRequirements(
    CUDA_ARRAY_MEMORY_REQUIREMENTS* /*out*/, CUmipmappedArray /*array*/, CUdevice /*device*/) {
  return AnswerInContext([](Session&) { return MappedArrayError(); });
}

CUSPAN_EXPORT CUresult cuArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES* /*out*/,
                                                  CUarray /*array*/) {
  return AnswerInContext([](Session&) { return MappedArrayError(); });
}

CUSPAN_EXPORT CUresult cuMipmappedArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES* /*out*/,
                                                           CUmipmappedArray /*array*/) {
  return AnswerInContext([](Session&) { return MappedArrayError(); });
}

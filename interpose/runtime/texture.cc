// Texture and surface objects.
#include "interpose/calls/texture.h"

#include <optional>

#include "interpose/runtime/array_format.h"
#include "interpose/runtime/caller.h"
#include "interpose/runtime/entry.h"
#include "protocol/api/texture_descriptions.h"

namespace cuspan {
namespace {

// Conversion of a texture's resource, in both directions.
Error Describe(const cudaResourceDesc& resource, TextureResource* out) {
  const auto describe_memory = [&](const void* memory, const cudaChannelFormatDesc& desc) -> Error {
    const std::optional<ElementFormat> format = FormatOf(desc);
    if (!format) return cudaErrorInvalidChannelDescriptor;
    out->address = NumberOf(memory);
    out->format = format->format;
    out->channels = format->channels;
    return cudaSuccess;
  };
  switch (resource.resType) {
    case cudaResourceTypeArray:
      out->kind = CU_RESOURCE_TYPE_ARRAY;
      out->array = NumberOf(resource.res.array.array);
      return cudaSuccess;
    case cudaResourceTypeMipmappedArray:
      out->kind = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
      out->array = NumberOf(resource.res.mipmap.mipmap);
      return cudaSuccess;
    case cudaResourceTypeLinear: {
      const auto& linear = resource.res.linear;
      out->kind = CU_RESOURCE_TYPE_LINEAR;
      out->width = linear.sizeInBytes;
      return describe_memory(linear.devPtr, linear.desc);
    }
    case cudaResourceTypePitch2D: {
      const auto& rows = resource.res.pitch2D;
      out->kind = CU_RESOURCE_TYPE_PITCH2D;
      out->width = rows.width;
      out->height = rows.height;
      out->pitch = rows.pitchInBytes;
      return describe_memory(rows.devPtr, rows.desc);
    }
    default:
      return cudaErrorInvalidValue;
  }
}

cudaResourceDesc ResourceOf(const TextureResource& resource) {
  cudaResourceDesc out{};
  const cudaChannelFormatDesc desc = DescOf({resource.format, resource.channels});
  switch (resource.kind) {
    case CU_RESOURCE_TYPE_ARRAY:
      out.resType = cudaResourceTypeArray;
      out.res.array.array = HandleOf<cudaArray_t>(resource.array);
      break;
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
      out.resType = cudaResourceTypeMipmappedArray;
      out.res.mipmap.mipmap = HandleOf<cudaMipmappedArray_t>(resource.array);
      break;
    case CU_RESOURCE_TYPE_LINEAR:
      out.resType = cudaResourceTypeLinear;
      out.res.linear = {HandleOf<void*>(resource.address), desc, resource.width};
      break;
    default:
      out.resType = cudaResourceTypePitch2D;
      out.res.pitch2D = {HandleOf<void*>(resource.address), desc, resource.width, resource.height,
                         resource.pitch};
  }
  return out;
}

// The enumerations have equal numbers. The flags are the driver's.
TextureSampling Describe(const cudaTextureDesc& desc) {
  TextureSampling out = SamplingFrom(desc);
  if (desc.readMode == cudaReadModeElementType) out.flags |= CU_TRSF_READ_AS_INTEGER;
  if (desc.normalizedCoords != 0) out.flags |= CU_TRSF_NORMALIZED_COORDINATES;
  if (desc.sRGB != 0) out.flags |= CU_TRSF_SRGB;
  if (desc.disableTrilinearOptimization != 0) out.flags |= CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION;
  if (desc.seamlessCubemap != 0) out.flags |= CU_TRSF_SEAMLESS_CUBEMAP;
  return out;
}

cudaTextureDesc SamplingOf(const TextureRecord& record) {
  const TextureSampling& sampling = record.sampling;
  const auto has = [&](unsigned flag) { return (sampling.flags & flag) != 0 ? 1 : 0; };
  const bool as_they_are = !IsInteger(record.resource.format) || has(CU_TRSF_READ_AS_INTEGER) != 0;
  auto out = SamplingAs<cudaTextureDesc>(sampling);
  out.readMode = as_they_are ? cudaReadModeElementType : cudaReadModeNormalizedFloat;
  out.normalizedCoords = has(CU_TRSF_NORMALIZED_COORDINATES);
  out.sRGB = has(CU_TRSF_SRGB);
  out.disableTrilinearOptimization = has(CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION);
  out.seamlessCubemap = has(CU_TRSF_SEAMLESS_CUBEMAP);
  return out;
}

Error Create(cudaTextureObject_t* object, const cudaResourceDesc& resource,
             const cudaTextureDesc& sampling, const cudaResourceViewDesc* view) {
  if (object == nullptr) return cudaErrorInvalidValue;
  TextureRecord record;
  CUSPAN_RETURN_IF_FAILED(Describe(resource, &record.resource));
  record.sampling = Describe(sampling);
  if (view != nullptr) record.view = ViewFrom(*view);
  std::uint64_t made = 0;
  CUSPAN_RETURN_IF_FAILED(CreateTexture(record, &made));
  *object = made;
  return cudaSuccess;
}

// Size of the structure in programs of a release.
std::size_t BytesOf(const cudaResourceDesc& desc, int release) {
  // Before CUDA 13, pitch2D was the largest member of the union, and no member followed the union.
  return release < 13 ? offsetof(cudaResourceDesc, res) + sizeof desc.res.pitch2D : sizeof desc;
}
std::size_t BytesOf(const cudaResourceViewDesc& desc, int release) {
  return release < 13 ? offsetof(cudaResourceViewDesc, reserved) : sizeof desc;
}
std::size_t BytesOf(const cudaTextureDesc& desc, int release) {
  return release < 12 ? offsetof(cudaTextureDesc, seamlessCubemap) : sizeof desc;
}

// Copies a structure, as far as programs of `release` have it. The rest is 0.
template <typename T>
T Whole(const T& desc, int release) {
  T whole{};
  CopyFirst(&whole, &desc, BytesOf(desc, release));
  return whole;
}

// cudaCreateTextureObject for the structures of a major CUDA release.
[[gnu::always_inline]] inline cudaError_t Create(cudaTextureObject_t* object,
                                                 const cudaResourceDesc* resource,
                                                 const cudaTextureDesc* sampling,
                                                 const cudaResourceViewDesc* view, int release) {
  return Answer([&]() -> Error {
    if (resource == nullptr || sampling == nullptr) return cudaErrorInvalidValue;
    const cudaResourceDesc whole_resource = Whole(*resource, release);
    const cudaTextureDesc whole_sampling = Whole(*sampling, release);
    if (view == nullptr) return Create(object, whole_resource, whole_sampling, nullptr);
    const cudaResourceViewDesc whole_view = Whole(*view, release);
    return Create(object, whole_resource, whole_sampling, &whole_view);
  });
}

// cudaGetTextureObjectTextureDesc for the structure of a major CUDA release.
[[gnu::always_inline]] inline cudaError_t GetSampling(cudaTextureDesc* desc,
                                                      cudaTextureObject_t object, int release) {
  return AnswerUnlessFaulted([&]() -> Error {
    if (desc == nullptr) return cudaErrorInvalidValue;
    TextureRecord record;
    CUSPAN_RETURN_IF_FAILED(FindTexture(object, &record));
    const cudaTextureDesc whole = SamplingOf(record);
    CopyFirst(desc, &whole, BytesOf(whole, release));
    return cudaSuccess;
  });
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT cudaError_t cudaCreateTextureObject(cudaTextureObject_t* object,
                                                  const cudaResourceDesc* resource,
                                                  const cudaTextureDesc* sampling,
                                                  const cudaResourceViewDesc* view) {
  return Create(object, resource, sampling, view, CallerRelease(__builtin_return_address(0)));
}

// Uses CUDA 12's structures in programs of CUDA 11. There the plain names have smaller ones.
CUSPAN_EXPORT cudaError_t cudaCreateTextureObject_v2(cudaTextureObject_t* object,
                                                     const cudaResourceDesc* resource,
                                                     const cudaTextureDesc* sampling,
                                                     const cudaResourceViewDesc* view) {
  return Create(object, resource, sampling, view, 12);
}

CUSPAN_EXPORT cudaError_t cudaDestroyTextureObject(cudaTextureObject_t object) {
  return Answer([&] { return DestroyTexture(object); });
}

CUSPAN_EXPORT cudaError_t cudaGetTextureObjectResourceDesc(cudaResourceDesc* desc,
                                                           cudaTextureObject_t object) {
  const int release = CallerRelease(__builtin_return_address(0));
  return AnswerUnlessFaulted([&]() -> Error {
    if (desc == nullptr) return cudaErrorInvalidValue;
    TextureRecord record;
    CUSPAN_RETURN_IF_FAILED(FindTexture(object, &record));
    const cudaResourceDesc whole = ResourceOf(record.resource);
    CopyFirst(desc, &whole, BytesOf(whole, release));
    return cudaSuccess;
  });
}

CUSPAN_EXPORT cudaError_t cudaGetTextureObjectTextureDesc(cudaTextureDesc* desc,
                                                          cudaTextureObject_t object) {
  return GetSampling(desc, object, CallerRelease(__builtin_return_address(0)));
}

CUSPAN_EXPORT cudaError_t cudaGetTextureObjectTextureDesc_v2(cudaTextureDesc* desc,
                                                             cudaTextureObject_t object) {
  return GetSampling(desc, object, 12);
}

CUSPAN_EXPORT cudaError_t cudaGetTextureObjectResourceViewDesc(cudaResourceViewDesc* desc,
                                                               cudaTextureObject_t object) {
  const int release = CallerRelease(__builtin_return_address(0));
  return AnswerUnlessFaulted([&]() -> Error {
    if (desc == nullptr) return cudaErrorInvalidValue;
    TextureRecord record;
    CUSPAN_RETURN_IF_FAILED(FindTexture(object, &record));
    // *desc stays unchanged, as in runtime 13.0.
    if (!record.view) return cudaSuccess;
    const auto whole = ViewAs<cudaResourceViewDesc>(*record.view);
    CopyFirst(desc, &whole, BytesOf(whole, release));
    return cudaSuccess;
  });
}

CUSPAN_EXPORT cudaError_t cudaCreateSurfaceObject(cudaSurfaceObject_t* object,
                                                  const cudaResourceDesc* resource) {
  return Answer([&]() -> Error {
    if (object == nullptr || resource == nullptr || resource->resType != cudaResourceTypeArray)
      return cudaErrorInvalidValue;
    std::uint64_t made = 0;
    CUSPAN_RETURN_IF_FAILED(CreateSurface(NumberOf(resource->res.array.array), &made));
    *object = made;
    return cudaSuccess;
  });
}

CUSPAN_EXPORT cudaError_t cudaDestroySurfaceObject(cudaSurfaceObject_t object) {
  return AnswerUnlessFaulted([&] { return DestroySurface(object); });
}

CUSPAN_EXPORT cudaError_t cudaGetSurfaceObjectResourceDesc(cudaResourceDesc* desc,
                                                           cudaSurfaceObject_t object) {
  const int release = CallerRelease(__builtin_return_address(0));
  return AnswerUnlessFaulted([&]() -> Error {
    if (desc == nullptr) return cudaErrorInvalidValue;
    std::uint64_t array = 0;
    CUSPAN_RETURN_IF_FAILED(ArrayOfSurface(object, &array));
    cudaResourceDesc whole{};
    whole.resType = cudaResourceTypeArray;
    whole.res.array.array = HandleOf<cudaArray_t>(array);
    CopyFirst(desc, &whole, BytesOf(whole, release));
    return cudaSuccess;
  });
}

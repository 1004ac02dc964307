// Texture and surface objects.
#include "interpose/calls/texture.h"

#include "interpose/driver/entry.h"
#include "protocol/api/texture_descriptions.h"

namespace cuspan {
namespace {

// Conversion of a texture's resource, in both directions.
Error Describe(const CUDA_RESOURCE_DESC& resource, TextureResource* out) {
  out->kind = static_cast<std::uint32_t>(resource.resType);
  switch (resource.resType) {
    case CU_RESOURCE_TYPE_ARRAY:
      out->array = NumberOf(resource.res.array.hArray);
      return CUDA_SUCCESS;
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
      out->array = NumberOf(resource.res.mipmap.hMipmappedArray);
      return CUDA_SUCCESS;
    case CU_RESOURCE_TYPE_LINEAR: {
      const auto& linear = resource.res.linear;
      out->address = linear.devPtr;
      out->format = static_cast<std::uint32_t>(linear.format);
      out->channels = linear.numChannels;
      out->width = linear.sizeInBytes;
      return CUDA_SUCCESS;
    }
    case CU_RESOURCE_TYPE_PITCH2D: {
      const auto& rows = resource.res.pitch2D;
      out->address = rows.devPtr;
      out->format = static_cast<std::uint32_t>(rows.format);
      out->channels = rows.numChannels;
      out->width = rows.width;
      out->height = rows.height;
      out->pitch = rows.pitchInBytes;
      return CUDA_SUCCESS;
    }
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUDA_RESOURCE_DESC ResourceOf(const TextureResource& resource) {
  CUDA_RESOURCE_DESC out{};
  const auto format = static_cast<CUarray_format>(resource.format);
  out.resType = static_cast<CUresourcetype>(resource.kind);
  switch (out.resType) {
    case CU_RESOURCE_TYPE_ARRAY:
      out.res.array.hArray = HandleOf<CUarray>(resource.array);
      break;
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
      out.res.mipmap.hMipmappedArray = HandleOf<CUmipmappedArray>(resource.array);
      break;
    case CU_RESOURCE_TYPE_LINEAR:
      out.res.linear = {resource.address, format, resource.channels, resource.width};
      break;
    default:
      out.res.pitch2D = {resource.address, format,          resource.channels,
                         resource.width,   resource.height, resource.pitch};
  }
  return out;
}

// Calls tell(const TextureRecord&) → Error to fill *out.
template <typename Report>
CUresult WithTexture(CUtexObject object, const void* out, Report&& tell) {
  return AnswerInContext([&](Session&) -> Error {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    TextureRecord record;
    CUSPAN_RETURN_IF_FAILED(FindTexture(object, &record));
    return tell(record);
  });
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT CUresult cuTexObjectCreate(CUtexObject* object, const CUDA_RESOURCE_DESC* resource,
                                         const CUDA_TEXTURE_DESC* sampling,
                                         const CUDA_RESOURCE_VIEW_DESC* view) {
  return AnswerInContext([&](Session&) -> Error {
    if (object == nullptr || resource == nullptr || sampling == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    TextureRecord record;
    CUSPAN_RETURN_IF_FAILED(Describe(*resource, &record.resource));
    record.sampling = SamplingFrom(*sampling);
    record.sampling.flags = sampling->flags;
    if (view != nullptr) record.view = ViewFrom(*view);
    std::uint64_t made = 0;
    CUSPAN_RETURN_IF_FAILED(CreateTexture(record, &made));
    *object = made;
    return CUDA_SUCCESS;
  });
}

CUSPAN_EXPORT CUresult cuTexObjectDestroy(CUtexObject object) {
  return AnswerInContext([&](Session&) { return DestroyTexture(object); });
}

CUSPAN_EXPORT CUresult cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC* out, CUtexObject object) {
  return WithTexture(object, out, [&](const TextureRecord& record) -> Error {
    *out = ResourceOf(record.resource);
    return CUDA_SUCCESS;
  });
}

CUSPAN_EXPORT CUresult cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC* out, CUtexObject object) {
  return WithTexture(object, out, [&](const TextureRecord& record) -> Error {
    *out = SamplingAs<CUDA_TEXTURE_DESC>(record.sampling);
    out->flags = record.sampling.flags;
    return CUDA_SUCCESS;
  });
}

CUSPAN_EXPORT CUresult cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC* out,
                                                      CUtexObject object) {
  return WithTexture(object, out, [&](const TextureRecord& record) -> Error {
    // If there is no view, returns success with *out unchanged, unlike documented (measured
    // natively).
    if (record.view) *out = ViewAs<CUDA_RESOURCE_VIEW_DESC>(*record.view);
    return CUDA_SUCCESS;
  });
}

CUSPAN_EXPORT CUresult cuSurfObjectCreate(CUsurfObject* object,
                                          const CUDA_RESOURCE_DESC* resource) {
  return AnswerInContext([&](Session&) -> Error {
    if (object == nullptr || resource == nullptr || resource->resType != CU_RESOURCE_TYPE_ARRAY)
      return CUDA_ERROR_INVALID_VALUE;
    std::uint64_t made = 0;
    CUSPAN_RETURN_IF_FAILED(CreateSurface(NumberOf(resource->res.array.hArray), &made));
    *object = made;
    return CUDA_SUCCESS;
  });
}

CUSPAN_EXPORT CUresult cuSurfObjectDestroy(CUsurfObject object) {
  return AnswerInContext([&](Session&) { return DestroySurface(object); });
}

CUSPAN_EXPORT CUresult cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC* out, CUsurfObject object) {
  return AnswerInContext([&](Session&) -> Error {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::uint64_t array = 0;
    CUSPAN_RETURN_IF_FAILED(ArrayOfSurface(object, &array));
    *out = {};
    out->resType = CU_RESOURCE_TYPE_ARRAY;
    out->res.array.hArray = HandleOf<CUarray>(array);
    return CUDA_SUCCESS;
  });
}

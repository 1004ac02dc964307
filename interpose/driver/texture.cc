// Texture and surface objects.
#include "interpose/calls/texture.h"

#include <algorithm>
#include <iterator>

#include "interpose/driver/entry.h"

namespace cuspan {
namespace {

// What the texture reads, and back.
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

TextureSampling Describe(const CUDA_TEXTURE_DESC& desc) {
  TextureSampling out;
  for (std::size_t i = 0; i < out.address_modes.size(); ++i)
    out.address_modes[i] = static_cast<std::uint32_t>(desc.addressMode[i]);
  out.filter = static_cast<std::uint32_t>(desc.filterMode);
  out.flags = desc.flags;
  out.max_anisotropy = desc.maxAnisotropy;
  out.mipmap_filter = static_cast<std::uint32_t>(desc.mipmapFilterMode);
  out.mipmap_bias = desc.mipmapLevelBias;
  out.mipmap_least = desc.minMipmapLevelClamp;
  out.mipmap_most = desc.maxMipmapLevelClamp;
  std::copy(std::begin(desc.borderColor), std::end(desc.borderColor), out.border.begin());
  return out;
}

CUDA_TEXTURE_DESC SamplingOf(const TextureSampling& sampling) {
  CUDA_TEXTURE_DESC out{};
  for (std::size_t i = 0; i < sampling.address_modes.size(); ++i)
    out.addressMode[i] = static_cast<CUaddress_mode>(sampling.address_modes[i]);
  out.filterMode = static_cast<CUfilter_mode>(sampling.filter);
  out.flags = sampling.flags;
  out.maxAnisotropy = sampling.max_anisotropy;
  out.mipmapFilterMode = static_cast<CUfilter_mode>(sampling.mipmap_filter);
  out.mipmapLevelBias = sampling.mipmap_bias;
  out.minMipmapLevelClamp = sampling.mipmap_least;
  out.maxMipmapLevelClamp = sampling.mipmap_most;
  std::copy(sampling.border.begin(), sampling.border.end(), out.borderColor);
  return out;
}

TextureView Describe(const CUDA_RESOURCE_VIEW_DESC& view) {
  TextureView out;
  out.format = static_cast<std::uint32_t>(view.format);
  out.width = view.width;
  out.height = view.height;
  out.depth = view.depth;
  out.first_level = view.firstMipmapLevel;
  out.last_level = view.lastMipmapLevel;
  out.first_layer = view.firstLayer;
  out.last_layer = view.lastLayer;
  return out;
}

CUDA_RESOURCE_VIEW_DESC ViewOf(const TextureView& view) {
  CUDA_RESOURCE_VIEW_DESC out{};
  out.format = static_cast<CUresourceViewFormat>(view.format);
  out.width = view.width;
  out.height = view.height;
  out.depth = view.depth;
  out.firstMipmapLevel = view.first_level;
  out.lastMipmapLevel = view.last_level;
  out.firstLayer = view.first_layer;
  out.lastLayer = view.last_layer;
  return out;
}

// tell(const TextureRecord&) → Error gives *out of a texture.
template <typename Tell>
CUresult AboutTexture(CUtexObject object, const void* out, Tell&& tell) {
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
    record.sampling = Describe(*sampling);
    if (view != nullptr) record.view = Describe(*view);
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
  return AboutTexture(object, out, [&](const TextureRecord& record) -> Error {
    *out = ResourceOf(record.resource);
    return CUDA_SUCCESS;
  });
}

CUSPAN_EXPORT CUresult cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC* out, CUtexObject object) {
  return AboutTexture(object, out, [&](const TextureRecord& record) -> Error {
    *out = SamplingOf(record.sampling);
    return CUDA_SUCCESS;
  });
}

CUSPAN_EXPORT CUresult cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC* out,
                                                      CUtexObject object) {
  return AboutTexture(object, out, [&](const TextureRecord& record) -> Error {
    // None is no error, whatever the text says, and *out stays as it was. Measured natively.
    if (record.view) *out = ViewOf(*record.view);
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

// Texture objects.
#include <algorithm>
#include <optional>

#include "interpose/runtime/array_format.h"
#include "interpose/runtime/caller.h"
#include "interpose/runtime/entry.h"
#include "interpose/runtime/object_table.h"
#include "interpose/runtime/texture.h"

namespace cuspan {
namespace {

struct TextureRecord {
  cudaResourceDesc resource;
  cudaTextureDesc sampling;
  std::optional<cudaResourceViewDesc> view;
};

ObjectTable<TextureRecord>& Textures() {
  static auto* const table = new ObjectTable<TextureRecord>;  // Never destroyed, as the session.
  return *table;
}

// The device that holds all of [address, address + bytes), or nothing.
std::shared_ptr<Link> HolderOf(Session& session, const void* memory, std::size_t bytes) {
  const Session::PointerKind kind = session.Classify(memory);
  if (kind.kind != Session::PointerKind::kDevice || kind.range_bytes == 0 ||
      bytes > kind.range_bytes - (NumberOf(memory) - kind.range_base)) {
    return nullptr;
  }
  return session.OpenedLink(kind.device);
}

bool IsInteger(std::uint32_t format) {
  return format != CU_AD_FORMAT_FLOAT && format != CU_AD_FORMAT_HALF;
}

// Fills in what the texture reads and finds the device that has it.
Error Describe(Session& session, const cudaResourceDesc& resource, TextureResource* out,
               std::shared_ptr<Link>* link) {
  const auto describe_memory = [&](const void* memory, const cudaChannelFormatDesc& desc) -> Error {
    const std::optional<ElementFormat> format = FormatOf(desc);
    if (!format) return cudaErrorInvalidChannelDescriptor;
    out->address = NumberOf(memory);
    out->format = format->format;
    out->channels = format->channels;
    return *link == nullptr ? cudaErrorInvalidValue : cudaSuccess;
  };
  const auto describe_array = [&](const void* handle, bool mipmapped) -> Error {
    const auto array = session.arrays().Find(NumberOf(handle));
    if (array == nullptr || (array->levels != 0) != mipmapped) return cudaErrorInvalidValue;
    out->array = array->handle;
    out->format = array->shape.format;
    *link = array->link;
    return cudaSuccess;
  };
  switch (resource.resType) {
    case cudaResourceTypeArray:
      out->kind = CU_RESOURCE_TYPE_ARRAY;
      return describe_array(resource.res.array.array, false);
    case cudaResourceTypeMipmappedArray:
      out->kind = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
      return describe_array(resource.res.mipmap.mipmap, true);
    case cudaResourceTypeLinear: {
      const auto& linear = resource.res.linear;
      out->kind = CU_RESOURCE_TYPE_LINEAR;
      out->width = linear.sizeInBytes;
      *link = HolderOf(session, linear.devPtr, linear.sizeInBytes);
      return describe_memory(linear.devPtr, linear.desc);
    }
    case cudaResourceTypePitch2D: {
      const auto& rows = resource.res.pitch2D;
      std::size_t bytes = 0;
      if (rows.height == 0 || __builtin_mul_overflow(rows.pitchInBytes, rows.height - 1, &bytes)) {
        return cudaErrorInvalidValue;
      }
      out->kind = CU_RESOURCE_TYPE_PITCH2D;
      out->width = rows.width;
      out->height = rows.height;
      out->pitch = rows.pitchInBytes;
      *link = HolderOf(session, rows.devPtr, bytes);
      return describe_memory(rows.devPtr, rows.desc);
    }
    default:
      return cudaErrorInvalidValue;
  }
}

// The enumerations agree in their numbers; the flags are the driver's.
TextureSampling Describe(const cudaTextureDesc& desc, bool integers) {
  TextureSampling out;
  for (std::size_t i = 0; i < out.address_modes.size(); ++i)
    out.address_modes[i] = desc.addressMode[i];
  out.filter = desc.filterMode;
  // Elements that are no integers are read as they are in either mode.
  if (desc.readMode == cudaReadModeElementType && integers) out.flags |= CU_TRSF_READ_AS_INTEGER;
  if (desc.normalizedCoords != 0) out.flags |= CU_TRSF_NORMALIZED_COORDINATES;
  if (desc.sRGB != 0) out.flags |= CU_TRSF_SRGB;
  if (desc.disableTrilinearOptimization != 0) out.flags |= CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION;
  if (desc.seamlessCubemap != 0) out.flags |= CU_TRSF_SEAMLESS_CUBEMAP;
  out.max_anisotropy = desc.maxAnisotropy;
  out.mipmap_filter = desc.mipmapFilterMode;
  out.mipmap_bias = desc.mipmapLevelBias;
  out.mipmap_least = desc.minMipmapLevelClamp;
  out.mipmap_most = desc.maxMipmapLevelClamp;
  std::copy(std::begin(desc.borderColor), std::end(desc.borderColor), out.border.begin());
  return out;
}

TextureView Describe(const cudaResourceViewDesc& view) {
  TextureView out;
  out.format = view.format;
  out.width = view.width;
  out.height = view.height;
  out.depth = view.depth;
  out.first_level = view.firstMipmapLevel;
  out.last_level = view.lastMipmapLevel;
  out.first_layer = view.firstLayer;
  out.last_layer = view.lastLayer;
  return out;
}

Error Create(cudaTextureObject_t* object, const cudaResourceDesc* resource,
             const cudaTextureDesc* sampling, const cudaResourceViewDesc* view) {
  if (object == nullptr || resource == nullptr || sampling == nullptr) return cudaErrorInvalidValue;
  return WithSession([&](Session& session) -> Error {
    TextureCreate op;
    std::shared_ptr<Link> link;
    CUSPAN_RETURN_IF_FAILED(Describe(session, *resource, &op.resource, &link));
    const bool integers = IsInteger(op.resource.format);
    // There is no mean of integers that are read as such.
    if (integers && sampling->readMode == cudaReadModeElementType &&
        sampling->filterMode == cudaFilterModeLinear) {
      return cudaErrorInvalidFilterSetting;
    }
    op.sampling = Describe(*sampling, integers);
    op.viewed = view != nullptr;
    if (view != nullptr) op.view = Describe(*view);
    TextureCreate::Reply reply;
    CUSPAN_RETURN_IF_FAILED(link->Call(op, &reply));
    TextureRecord record{*resource, *sampling, std::nullopt};
    if (view != nullptr) record.view = *view;
    Textures().Add(*link, reply.object, record);
    *object = reply.object;
    return cudaSuccess;
  });
}

// use(const TextureRecord&) → Error.
template <typename Use>
Error AboutTexture(cudaTextureObject_t object, Use&& use) {
  return WithSession([&](Session& session) -> Error {
    const auto found = Textures().Find(session, object);
    if (!found) return cudaErrorInvalidValue;
    return use(found->value);
  });
}

// A description of which programs of `release` have the first part only.
template <typename T>
T Whole(const T& desc, int release) {
  T whole{};
  CopyFirst(&whole, &desc, BytesOf(desc, release));
  return whole;
}

}  // namespace

cudaError_t CreateTexture(cudaTextureObject_t* object, const cudaResourceDesc* resource,
                          const cudaTextureDesc* sampling, const cudaResourceViewDesc* view,
                          int release) {
  return Answer([&]() -> Error {
    if (resource == nullptr || sampling == nullptr) return cudaErrorInvalidValue;
    const cudaResourceDesc whole_resource = Whole(*resource, release);
    const cudaTextureDesc whole_sampling = Whole(*sampling, release);
    if (view == nullptr) return Create(object, &whole_resource, &whole_sampling, nullptr);
    const cudaResourceViewDesc whole_view = Whole(*view, release);
    return Create(object, &whole_resource, &whole_sampling, &whole_view);
  });
}

}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT cudaError_t cudaCreateTextureObject(cudaTextureObject_t* object,
                                                  const cudaResourceDesc* resource,
                                                  const cudaTextureDesc* sampling,
                                                  const cudaResourceViewDesc* view) {
  return CreateTexture(object, resource, sampling, view,
                       CallerRelease(__builtin_return_address(0)));
}

CUSPAN_EXPORT cudaError_t cudaDestroyTextureObject(cudaTextureObject_t object) {
  return Answer([&] {
    return WithSession([&](Session& session) -> Error {
      if (object == 0) return cudaSuccess;
      const auto found = Textures().Find(session, object, true);
      if (!found) return cudaErrorInvalidValue;
      TextureDestroy op;
      op.object = object;
      return found->link->Post(op);
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaGetTextureObjectResourceDesc(cudaResourceDesc* desc,
                                                           cudaTextureObject_t object) {
  const int release = CallerRelease(__builtin_return_address(0));
  return Answer([&]() -> Error {
    if (desc == nullptr) return cudaErrorInvalidValue;
    return AboutTexture(object, [&](const TextureRecord& record) -> Error {
      CopyFirst(desc, &record.resource, BytesOf(record.resource, release));
      return cudaSuccess;
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaGetTextureObjectTextureDesc(cudaTextureDesc* desc,
                                                          cudaTextureObject_t object) {
  const int release = CallerRelease(__builtin_return_address(0));
  return Answer([&]() -> Error {
    if (desc == nullptr) return cudaErrorInvalidValue;
    return AboutTexture(object, [&](const TextureRecord& record) -> Error {
      CopyFirst(desc, &record.sampling, BytesOf(record.sampling, release));
      return cudaSuccess;
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaGetTextureObjectResourceViewDesc(cudaResourceViewDesc* desc,
                                                               cudaTextureObject_t object) {
  const int release = CallerRelease(__builtin_return_address(0));
  return Answer([&]() -> Error {
    if (desc == nullptr) return cudaErrorInvalidValue;
    return AboutTexture(object, [&](const TextureRecord& record) -> Error {
      if (!record.view) return cudaErrorInvalidValue;
      CopyFirst(desc, &*record.view, BytesOf(*record.view, release));
      return cudaSuccess;
    });
  });
}

// cuTexObject* and cuSurfObject*.
#include <algorithm>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/log.h"
#include "proxy/softgpu/driver/array.h"
#include "proxy/softgpu/driver/errors.h"
#include "proxy/softgpu/driver/limits.h"
#include "proxy/softgpu/driver/state.h"
#include "proxy/softgpu/rt/texture.h"

namespace cuspan::softgpu {
namespace {

// Owner context of an object, and the array kept alive by it.
struct Keep {
  std::shared_ptr<Context> context;
  std::shared_ptr<Array> array;
};

const std::shared_ptr<Context>& ContextOf(const ImageObject& object) {
  return static_cast<const Keep*>(object.keep.get())->context;
}

// Objects destroyed while work possibly using them was pending. They are freed at the first later
// destruction after the end of the work.
class Retired {
 public:
  void Add(std::shared_ptr<const ImageObject> object) {
    const std::shared_ptr<Context> context = ContextOf(*object);
    std::vector<Entry> gone;  // Freed after the unlock.
    std::lock_guard lock(mutex_);
    entries_.push_back({std::move(object), context->streams().Pending()});
    const auto busy = [](const Entry& entry) {
      return std::any_of(entry.work.begin(), entry.work.end(),
                         [](const OperationPtr& operation) { return !operation->done(); });
    };
    const auto idle = std::stable_partition(entries_.begin(), entries_.end(), busy);
    gone.assign(std::make_move_iterator(idle), std::make_move_iterator(entries_.end()));
    entries_.erase(idle, entries_.end());
  }

 private:
  struct Entry {
    std::shared_ptr<const ImageObject> object;
    std::vector<OperationPtr> work;
  };
  std::mutex mutex_;
  std::vector<Entry> entries_;
};

Retired& RetiredObjects() {
  static auto* const retired = new Retired;
  return *retired;
}

void FromLevels(const std::shared_ptr<Array>& array, std::vector<Image> levels, ImageObject* object,
                Keep* keep) {
  object->shape = array->shape();
  object->format = array->format();
  object->driver_format = array->descriptor().Format;
  object->levels = std::move(levels);
  keep->array = array;
}

CUresult FromArray(Driver& driver, CUarray handle, ImageObject* object, Keep* keep) {
  const auto entry = driver.arrays.Find(Number(handle));
  if (entry == nullptr) return driver.InvalidHandle();
  FromLevels(entry->array, {entry->image()}, object, keep);
  return CUDA_SUCCESS;
}

CUresult FromMipmap(Driver& driver, CUmipmappedArray handle, ImageObject* object, Keep* keep) {
  const auto entry = driver.mipmaps.Find(Number(handle));
  if (entry == nullptr) return driver.InvalidHandle();
  FromLevels(entry->array, entry->array->levels(), object, keep);
  return CUDA_SUCCESS;
}

CUresult FromMemory(Driver& driver, const CUDA_RESOURCE_DESC& resource, const Context& context,
                    ImageObject* object) {
  const bool pitched = resource.resType == CU_RESOURCE_TYPE_PITCH2D;
  const auto& linear = resource.res.linear;
  const auto& rows = resource.res.pitch2D;
  const CUdeviceptr address = pitched ? rows.devPtr : linear.devPtr;
  object->driver_format = pitched ? rows.format : linear.format;
  if (!FormatOf(object->driver_format, pitched ? rows.numChannels : linear.numChannels,
                &object->format))
    return CUDA_ERROR_INVALID_VALUE;
  const std::uint64_t texel = object->format.bytes();
  Image image;
  image.base = reinterpret_cast<std::uint8_t*>(address);
  std::uint64_t bytes = 0;
  if (pitched) {
    if (rows.width == 0 || rows.height == 0 || rows.width > UINT32_MAX / texel ||
        rows.height > UINT32_MAX || rows.pitchInBytes < rows.width * texel ||
        rows.pitchInBytes > UINT32_MAX || rows.pitchInBytes % limits::kTexturePitchAlignment != 0)
      return CUDA_ERROR_INVALID_VALUE;
    image.width = static_cast<std::uint32_t>(rows.width);
    image.height = static_cast<std::uint32_t>(rows.height);
    image.row_bytes = rows.pitchInBytes;
    bytes = rows.pitchInBytes * (rows.height - 1) + rows.width * texel;
    object->shape = ImageShape::k2D;
  } else {
    if (linear.sizeInBytes < texel || linear.sizeInBytes / texel > UINT32_MAX)
      return CUDA_ERROR_INVALID_VALUE;
    image.width = static_cast<std::uint32_t>(linear.sizeInBytes / texel);
    bytes = image.width * texel;
    image.row_bytes = bytes;
    object->shape = ImageShape::kLinear;
  }
  image.slice_bytes = bytes;
  if (address % limits::kTextureAlignment != 0 ||
      !driver.addresses.Accessible(address, bytes, context.device(), false))
    return CUDA_ERROR_INVALID_VALUE;
  object->levels = {image};
  return CUDA_SUCCESS;
}

CUresult FromResource(Driver& driver, const CUDA_RESOURCE_DESC& resource,
                      const std::shared_ptr<Context>& context, ImageObject* object) {
  auto keep = std::make_shared<Keep>();
  keep->context = context;
  object->resource = resource;
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  if (resource.flags != 0) return result;
  switch (resource.resType) {
    case CU_RESOURCE_TYPE_ARRAY:
      result = FromArray(driver, resource.res.array.hArray, object, keep.get());
      break;
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
      result = FromMipmap(driver, resource.res.mipmap.hMipmappedArray, object, keep.get());
      break;
    case CU_RESOURCE_TYPE_LINEAR:
    case CU_RESOURCE_TYPE_PITCH2D:
      result = FromMemory(driver, resource, *context, object);
      break;
  }
  object->keep = std::move(keep);
  return result;
}

bool AddressingOf(CUaddress_mode mode, Addressing* out) {
  switch (mode) {
    case CU_TR_ADDRESS_MODE_WRAP:
      *out = Addressing::kWrap;
      return true;
    case CU_TR_ADDRESS_MODE_CLAMP:
      *out = Addressing::kClamp;
      return true;
    case CU_TR_ADDRESS_MODE_MIRROR:
      *out = Addressing::kMirror;
      return true;
    case CU_TR_ADDRESS_MODE_BORDER:
      *out = Addressing::kBorder;
      return true;
  }
  return false;
}

CUresult ApplySampler(const CUDA_TEXTURE_DESC& texture, ImageObject* object) {
  constexpr unsigned kKnownFlags = CU_TRSF_READ_AS_INTEGER | CU_TRSF_NORMALIZED_COORDINATES |
                                   CU_TRSF_SRGB | CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION |
                                   CU_TRSF_SEAMLESS_CUBEMAP;
  if ((texture.flags & ~kKnownFlags) != 0 || texture.filterMode > CU_TR_FILTER_MODE_LINEAR ||
      texture.mipmapFilterMode > CU_TR_FILTER_MODE_LINEAR)
    return CUDA_ERROR_INVALID_VALUE;
  object->texture = texture;
  for (std::size_t i = 0; i < 3; ++i) {
    if (!AddressingOf(texture.addressMode[i], &object->addressing[i]))
      return CUDA_ERROR_INVALID_VALUE;
  }
  object->normalised_coordinates = (texture.flags & CU_TRSF_NORMALIZED_COORDINATES) != 0;
  // Wrap and mirror are defined only for normalised coordinates; otherwise clamp.
  for (auto& addressing : object->addressing) {
    if (!object->normalised_coordinates &&
        (addressing == Addressing::kWrap || addressing == Addressing::kMirror))
      addressing = Addressing::kClamp;
  }
  // 32-bit integers are never converted.
  const bool narrow = object->format.channel_bytes() < 4;
  object->read_as_float = object->format.is_float() || object->format.normalised ||
                          (narrow && (texture.flags & CU_TRSF_READ_AS_INTEGER) == 0);
  object->linear_filter = texture.filterMode == CU_TR_FILTER_MODE_LINEAR;
  if (object->shape == ImageShape::kLinear) object->linear_filter = false;
  if (object->linear_filter && !object->read_as_float) return CUDA_ERROR_INVALID_VALUE;
  object->linear_mipmap = texture.mipmapFilterMode == CU_TR_FILTER_MODE_LINEAR;
  object->srgb = (texture.flags & CU_TRSF_SRGB) != 0 && object->format.channel == Channel::kU8 &&
                 object->read_as_float;
  object->level_bias = texture.mipmapLevelBias;
  object->lowest_level = texture.minMipmapLevelClamp;
  object->highest_level = texture.maxMipmapLevelClamp;
  std::copy(std::begin(texture.borderColor), std::end(texture.borderColor), object->border.begin());
  return CUDA_SUCCESS;
}

// Format of a view. CUresourceViewFormat lists formats of 1, 2 and 4 channels for each channel
// type.
bool ViewFormat(CUresourceViewFormat format, TexelFormat* out) {
  static constexpr Channel kChannels[] = {Channel::kU8,  Channel::kS8,  Channel::kU16,
                                          Channel::kS16, Channel::kU32, Channel::kS32,
                                          Channel::kF16, Channel::kF32};
  if (format < CU_RES_VIEW_FORMAT_UINT_1X8 || format > CU_RES_VIEW_FORMAT_FLOAT_4X32) return false;
  const auto index = static_cast<unsigned>(format) - CU_RES_VIEW_FORMAT_UINT_1X8;
  *out = {kChannels[index / 3], static_cast<std::uint8_t>(1U << index % 3), false};
  return true;
}

CUresult ApplyView(const CUDA_RESOURCE_VIEW_DESC& view, ImageObject* object) {
  object->view = view;
  object->has_view = true;
  if (view.format != CU_RES_VIEW_FORMAT_NONE) {
    TexelFormat format;
    if (!ViewFormat(view.format, &format)) {
      LogError("software GPU: the format {} of a resource view is not implemented",
               static_cast<int>(view.format));
      return CUDA_ERROR_NOT_SUPPORTED;
    }
    if (format.bytes() != object->format.bytes()) return CUDA_ERROR_INVALID_VALUE;
    object->format = format;
  }
  const auto levels = static_cast<unsigned>(object->levels.size());
  if (view.firstMipmapLevel > view.lastMipmapLevel || view.lastMipmapLevel >= levels)
    return CUDA_ERROR_INVALID_VALUE;
  object->levels.resize(view.lastMipmapLevel + 1);
  object->levels.erase(object->levels.begin(), object->levels.begin() + view.firstMipmapLevel);
  const bool layered = object->shape == ImageShape::k1DLayered ||
                       object->shape == ImageShape::k2DLayered ||
                       object->shape == ImageShape::kCubeLayered;
  if (!layered) return CUDA_SUCCESS;
  for (Image& image : object->levels) {
    if (view.firstLayer > view.lastLayer || view.lastLayer >= image.depth)
      return CUDA_ERROR_INVALID_VALUE;
    image.base += view.firstLayer * image.slice_bytes;
    image.depth = view.lastLayer - view.firstLayer + 1;
  }
  return CUDA_SUCCESS;
}

CUresult Publish(std::shared_ptr<ImageObject> object, unsigned long long* handle) {
  const std::uint64_t made = ImageTable::Get().Add(std::move(object));
  if (made == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *handle = made;
  return CUDA_SUCCESS;
}

CUresult Destroy(std::uint64_t handle, bool is_surface) {
  CUSPAN_SOFT_ENTER(driver);
  std::shared_ptr<const ImageObject> object = ImageTable::Get().FindShared(handle);
  if (object == nullptr || object->is_surface != is_surface) return CUDA_ERROR_INVALID_VALUE;
  CUSPAN_SOFT_RETURN_IF_ERROR(ContextOf(*object)->error());
  object = ImageTable::Get().Remove(handle);
  if (object == nullptr) return CUDA_ERROR_INVALID_VALUE;
  RetiredObjects().Add(std::move(object));
  return CUDA_SUCCESS;
}

// Returns one part of an object's description.
template <typename Part>
CUresult GivePart(std::uint64_t handle, bool is_surface, Part ImageObject::*part, Part* out) {
  CUSPAN_SOFT_ENTER(driver);
  const std::shared_ptr<const ImageObject> object = ImageTable::Get().FindShared(handle);
  if (out == nullptr || object == nullptr || object->is_surface != is_surface)
    return CUDA_ERROR_INVALID_VALUE;
  if (std::is_same_v<Part, CUDA_RESOURCE_VIEW_DESC> && !object->has_view)
    return CUDA_ERROR_INVALID_VALUE;
  *out = (*object).*part;
  return CUDA_SUCCESS;
}

}  // namespace

void DestroyImageObjects(const std::shared_ptr<Context>& context) {
  // The context's work is done, so the objects are unused.
  ImageTable::Get().RemoveIf(
      [&](const ImageObject& object) { return ContextOf(object) == context; });
}

CUSPAN_SOFT_API CUresult CUDAAPI cuTexObjectCreate(CUtexObject* handle,
                                                   const CUDA_RESOURCE_DESC* resource,
                                                   const CUDA_TEXTURE_DESC* texture,
                                                   const CUDA_RESOURCE_VIEW_DESC* view) {
  CUSPAN_SOFT_ENTER(driver);
  std::shared_ptr<Context> context;
  CUSPAN_SOFT_RETURN_IF_ERROR(driver->UsableContext(&context));
  if (handle == nullptr || resource == nullptr || texture == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  auto object = std::make_shared<ImageObject>();
  CUSPAN_SOFT_RETURN_IF_ERROR(FromResource(*driver, *resource, context, object.get()));
  const bool of_array = resource->resType == CU_RESOURCE_TYPE_ARRAY ||
                        resource->resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
  if (view != nullptr) {
    if (!of_array) return CUDA_ERROR_INVALID_VALUE;
    CUSPAN_SOFT_RETURN_IF_ERROR(ApplyView(*view, object.get()));
  }
  CUSPAN_SOFT_RETURN_IF_ERROR(ApplySampler(*texture, object.get()));
  return Publish(std::move(object), handle);
}

CUSPAN_SOFT_API CUresult CUDAAPI cuTexObjectDestroy(CUtexObject handle) {
  return Destroy(handle, false);
}

CUSPAN_SOFT_API CUresult CUDAAPI cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC* resource,
                                                            CUtexObject handle) {
  return GivePart(handle, false, &ImageObject::resource, resource);
}

CUSPAN_SOFT_API CUresult CUDAAPI cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC* texture,
                                                           CUtexObject handle) {
  return GivePart(handle, false, &ImageObject::texture, texture);
}

CUSPAN_SOFT_API CUresult CUDAAPI cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC* view,
                                                                CUtexObject handle) {
  return GivePart(handle, false, &ImageObject::view, view);
}

CUSPAN_SOFT_API CUresult CUDAAPI cuSurfObjectCreate(CUsurfObject* handle,
                                                    const CUDA_RESOURCE_DESC* resource) {
  CUSPAN_SOFT_ENTER(driver);
  std::shared_ptr<Context> context;
  CUSPAN_SOFT_RETURN_IF_ERROR(driver->UsableContext(&context));
  if (handle == nullptr || resource == nullptr || resource->resType != CU_RESOURCE_TYPE_ARRAY)
    return CUDA_ERROR_INVALID_VALUE;
  auto object = std::make_shared<ImageObject>();
  object->is_surface = true;
  CUSPAN_SOFT_RETURN_IF_ERROR(FromResource(*driver, *resource, context, object.get()));
  return Publish(std::move(object), handle);
}

CUSPAN_SOFT_API CUresult CUDAAPI cuSurfObjectDestroy(CUsurfObject handle) {
  return Destroy(handle, true);
}

CUSPAN_SOFT_API CUresult CUDAAPI cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC* resource,
                                                             CUsurfObject handle) {
  return GivePart(handle, true, &ImageObject::resource, resource);
}

}  // namespace cuspan::softgpu

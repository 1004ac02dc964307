// cuArray* and cuMipmappedArray*.
#include "proxy/softgpu/driver/array.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "common/log.h"
#include "common/round_up.h"
#include "proxy/softgpu/driver/errors.h"
#include "proxy/softgpu/driver/limits.h"
#include "proxy/softgpu/driver/state.h"

namespace cuspan::softgpu {
namespace {

constexpr unsigned kKnownFlags = CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST |
                                 CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_TEXTURE_GATHER |
                                 CUDA_ARRAY3D_COLOR_ATTACHMENT;
// Larger than the limit of any GPU in one dimension; keeps products of sizes far from overflow.
constexpr std::size_t kMaxTexels = std::size_t{1} << 28;
// Alignment of rows and slices, for vector instructions.
constexpr std::size_t kRowAlignment = 64;

bool HasUsableSizes(const CUDA_ARRAY3D_DESCRIPTOR& d) {
  const bool layered = (d.Flags & CUDA_ARRAY3D_LAYERED) != 0;
  if (d.Width == 0 || d.Width > kMaxTexels || d.Height > kMaxTexels || d.Depth > kMaxTexels)
    return false;
  if ((d.Flags & CUDA_ARRAY3D_CUBEMAP) != 0) {
    return d.Width == d.Height && d.Depth % 6 == 0 && d.Depth != 0 && (layered || d.Depth == 6);
  }
  if (layered) return d.Depth != 0 && d.Depth <= limits::kMaxLayers;
  if ((d.Flags & CUDA_ARRAY3D_TEXTURE_GATHER) != 0 && d.Height == 0) return false;
  return d.Height != 0 || d.Depth == 0;  // A third dimension needs a second.
}

// True if CUDA has the format, implemented here or not. The ranges follow cuda.h.
bool IsFormat(CUarray_format format) {
  const auto from_to = [&](unsigned first, unsigned last) {
    return format >= first && format <= last;
  };
  return from_to(CU_AD_FORMAT_UNSIGNED_INT8, CU_AD_FORMAT_UNSIGNED_INT32) ||
         from_to(CU_AD_FORMAT_SIGNED_INT8, CU_AD_FORMAT_SIGNED_INT32) ||
         format == CU_AD_FORMAT_HALF || format == CU_AD_FORMAT_FLOAT ||
         format == CU_AD_FORMAT_UNORM_INT_101010_2 ||
         from_to(CU_AD_FORMAT_BC1_UNORM, CU_AD_FORMAT_YUV444_16bit_SemiPlanar) ||
         from_to(CU_AD_FORMAT_UNORM_INT8X1, CU_AD_FORMAT_SNORM_INT16X4);
}

// Size of one dimension at mipmap level `level`.
std::uint32_t LevelSize(std::size_t size, unsigned level) {
  return static_cast<std::uint32_t>(std::max<std::size_t>(size >> level, 1));
}

}  // namespace

CUresult Array::Create(Driver& driver, const std::shared_ptr<Context>& context,
                       const CUDA_ARRAY3D_DESCRIPTOR& descriptor, unsigned levels,
                       std::shared_ptr<Array>* array) {
  if (!HasUsableSizes(descriptor)) return CUDA_ERROR_INVALID_VALUE;
  TexelFormat format;
  const unsigned flags = descriptor.Flags;
  if (descriptor.NumChannels == 0 || descriptor.NumChannels == 3 || descriptor.NumChannels > 4)
    return CUDA_ERROR_INVALID_VALUE;
  if ((flags & ~kKnownFlags) != 0 ||
      !FormatOf(descriptor.Format, descriptor.NumChannels, &format)) {
    if (!IsFormat(descriptor.Format)) return CUDA_ERROR_INVALID_VALUE;
    LogError(
        "software GPU: an array of format {} with {} channels and flags {:#x} is not implemented",
        static_cast<int>(descriptor.Format), descriptor.NumChannels, flags);
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  auto made = std::make_shared<Array>(context, descriptor, driver.addresses,
                                      driver.FindDevice(context->device())->memory);
  made->format_ = format;
  const bool slices_stay = (flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) != 0;
  std::size_t end = 0;
  std::vector<std::size_t> offsets;
  for (unsigned level = 0; level < levels; ++level) {
    Image image;
    image.width = LevelSize(descriptor.Width, level);
    image.height = LevelSize(descriptor.Height, level);
    image.depth = slices_stay ? static_cast<std::uint32_t>(descriptor.Depth)
                              : LevelSize(descriptor.Depth, level);
    image.row_bytes = RoundUp(std::size_t{image.width} * format.bytes(), kRowAlignment);
    if (image.row_bytes > SIZE_MAX / image.height / image.depth / 2)
      return CUDA_ERROR_OUT_OF_MEMORY;
    image.slice_bytes = image.row_bytes * image.height;
    offsets.push_back(end);
    end += image.slice_bytes * image.depth;
    made->levels_.push_back(image);
  }
  if (!made->memory_.Allocate(end)) {
    LogInfo("software GPU {}: no memory for an array of {} bytes", context->device(), end);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  for (unsigned level = 0; level < levels; ++level)
    made->levels_[level].base = made->memory_.base() + offsets[level];
  *array = std::move(made);
  return CUDA_SUCCESS;
}

ImageShape Array::shape() const {
  const bool layered = (descriptor_.Flags & CUDA_ARRAY3D_LAYERED) != 0;
  if ((descriptor_.Flags & CUDA_ARRAY3D_CUBEMAP) != 0)
    return layered ? ImageShape::kCubeLayered : ImageShape::kCube;
  if (layered) return descriptor_.Height == 0 ? ImageShape::k1DLayered : ImageShape::k2DLayered;
  if (descriptor_.Depth != 0) return ImageShape::k3D;
  return descriptor_.Height != 0 ? ImageShape::k2D : ImageShape::k1D;
}

namespace {

CUresult Find(Driver& driver, CUarray handle, std::shared_ptr<ArrayEntry>* entry) {
  *entry = driver.arrays.Find(Number(handle));
  if (*entry == nullptr) return driver.InvalidHandle();
  return (*entry)->array->context()->error();
}

}  // namespace

CUSPAN_SOFT_API CUresult CUDAAPI cuArray3DCreate(CUarray* handle,
                                                 const CUDA_ARRAY3D_DESCRIPTOR* descriptor) {
  CUSPAN_SOFT_ENTER(driver);
  std::shared_ptr<Context> context;
  CUSPAN_SOFT_RETURN_IF_ERROR(driver->UsableContext(&context));
  if (handle == nullptr || descriptor == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto entry = std::make_shared<ArrayEntry>();
  CUSPAN_SOFT_RETURN_IF_ERROR(Array::Create(*driver, context, *descriptor, 1, &entry->array));
  *handle = AsHandle<CUarray>(driver->arrays.Add(std::move(entry)));
  return CUDA_SUCCESS;
}

CUSPAN_SOFT_API CUresult CUDAAPI cuArrayCreate(CUarray* handle,
                                               const CUDA_ARRAY_DESCRIPTOR* descriptor) {
  if (descriptor == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUDA_ARRAY3D_DESCRIPTOR wider = {};
  wider.Width = descriptor->Width;
  wider.Height = descriptor->Height;
  wider.Format = descriptor->Format;
  wider.NumChannels = descriptor->NumChannels;
  return cuArray3DCreate(handle, &wider);
}

CUSPAN_SOFT_API CUresult CUDAAPI cuArrayDestroy(CUarray handle) {
  CUSPAN_SOFT_ENTER(driver);
  std::shared_ptr<ArrayEntry> entry;
  CUSPAN_SOFT_RETURN_IF_ERROR(Find(*driver, handle, &entry));
  if (entry->of_mipmap) return CUDA_ERROR_INVALID_HANDLE;
  // Texture and surface objects and copies in flight keep the memory.
  return driver->arrays.Remove(Number(handle)) == nullptr ? driver->InvalidHandle() : CUDA_SUCCESS;
}

CUSPAN_SOFT_API CUresult CUDAAPI cuArray3DGetDescriptor(CUDA_ARRAY3D_DESCRIPTOR* descriptor,
                                                        CUarray handle) {
  CUSPAN_SOFT_ENTER(driver);
  if (descriptor == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<ArrayEntry> entry;
  CUSPAN_SOFT_RETURN_IF_ERROR(Find(*driver, handle, &entry));
  *descriptor = entry->array->descriptor();
  if (entry->level != 0) {  // Missing dimensions stay 0.
    const Image& image = entry->image();
    descriptor->Width = image.width;
    if (descriptor->Height != 0) descriptor->Height = image.height;
    if (descriptor->Depth != 0) descriptor->Depth = image.depth;
  }
  return CUDA_SUCCESS;
}

CUSPAN_SOFT_API CUresult CUDAAPI cuArrayGetDescriptor(CUDA_ARRAY_DESCRIPTOR* descriptor,
                                                      CUarray handle) {
  if (descriptor == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUDA_ARRAY3D_DESCRIPTOR wider = {};
  CUSPAN_SOFT_RETURN_IF_ERROR(cuArray3DGetDescriptor(&wider, handle));
  descriptor->Width = wider.Width;
  descriptor->Height = wider.Height;
  descriptor->Format = wider.Format;
  descriptor->NumChannels = wider.NumChannels;
  return CUDA_SUCCESS;
}

CUSPAN_SOFT_API CUresult CUDAAPI cuMipmappedArrayCreate(CUmipmappedArray* handle,
                                                        const CUDA_ARRAY3D_DESCRIPTOR* descriptor,
                                                        unsigned levels) {
  CUSPAN_SOFT_ENTER(driver);
  std::shared_ptr<Context> context;
  CUSPAN_SOFT_RETURN_IF_ERROR(driver->UsableContext(&context));
  if (handle == nullptr || descriptor == nullptr) return CUDA_ERROR_INVALID_VALUE;
  // The number of levels is limited by the halvings of the largest dimension.
  const bool slices_stay = (descriptor->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) != 0;
  const std::size_t largest = std::max(
      {descriptor->Width, descriptor->Height, slices_stay ? std::size_t{0} : descriptor->Depth});
  const auto most = static_cast<unsigned>(std::bit_width(largest));
  auto entry = std::make_shared<MipmapEntry>();
  CUSPAN_SOFT_RETURN_IF_ERROR(Array::Create(
      *driver, context, *descriptor, std::clamp(levels, 1U, std::max(most, 1U)), &entry->array));
  entry->level_handles.resize(entry->array->levels().size(), 0);
  *handle = AsHandle<CUmipmappedArray>(driver->mipmaps.Add(std::move(entry)));
  return CUDA_SUCCESS;
}

CUSPAN_SOFT_API CUresult CUDAAPI cuMipmappedArrayGetLevel(CUarray* handle, CUmipmappedArray mipmap,
                                                          unsigned level) {
  CUSPAN_SOFT_ENTER(driver);
  const std::shared_ptr<MipmapEntry> entry = driver->mipmaps.Find(Number(mipmap));
  if (entry == nullptr) return driver->InvalidHandle();
  CUSPAN_SOFT_RETURN_IF_ERROR(entry->array->context()->error());
  if (handle == nullptr || level >= entry->level_handles.size()) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(entry->mutex);
  std::uint64_t& of_level = entry->level_handles[level];
  if (of_level == 0) {
    auto made = std::make_shared<ArrayEntry>();
    *made = {entry->array, level, true};
    of_level = driver->arrays.Add(std::move(made));
  }
  *handle = AsHandle<CUarray>(of_level);
  return CUDA_SUCCESS;
}

CUSPAN_SOFT_API CUresult CUDAAPI cuMipmappedArrayDestroy(CUmipmappedArray handle) {
  CUSPAN_SOFT_ENTER(driver);
  std::shared_ptr<MipmapEntry> entry = driver->mipmaps.Find(Number(handle));
  if (entry == nullptr) return driver->InvalidHandle();
  CUSPAN_SOFT_RETURN_IF_ERROR(entry->array->context()->error());
  entry = driver->mipmaps.Remove(Number(handle));
  if (entry == nullptr) return driver->InvalidHandle();
  std::lock_guard lock(entry->mutex);
  for (const std::uint64_t level : entry->level_handles)
    if (level != 0) driver->arrays.Remove(level);
  return CUDA_SUCCESS;
}

}  // namespace cuspan::softgpu

#include "tests/unit/proxy/softgpu/instructions/images.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "tests/unit/proxy/softgpu/instructions/numbers.h"

namespace cuspan::ptx_forms {
namespace {

using U = std::uint32_t;

// Appends one channel: a float as `value`, an integer as its whole part times 3 plus 7, truncated
// to the type.
void PutChannel(std::vector<std::uint8_t>& bytes, CUarray_format format, float value) {
  U bits = static_cast<U>(static_cast<std::int32_t>(value) * 3 + 7);
  if (format == CU_AD_FORMAT_FLOAT) bits = std::bit_cast<U>(value);
  if (format == CU_AD_FORMAT_HALF) bits = ToHalf(static_cast<Wide>(value)).bits;
  for (unsigned i = 0; i < SizeOfFormat(format); ++i)
    bytes.push_back(static_cast<std::uint8_t>(bits >> (8 * i)));
}

void FillArray(Gpu& gpu, CUarray array, const Shape& shape, CUarray_format format,
               unsigned channels, unsigned level) {
  const unsigned width = std::max(shape.width >> level, 1U);
  const unsigned height = shape.height == 0 ? 1 : std::max(shape.height >> level, 1U);
  const unsigned depth = std::max(shape.depth, 1U);
  std::vector<std::uint8_t> bytes;
  for (unsigned z = 0; z < depth; ++z)
    for (unsigned y = 0; y < height; ++y)
      for (unsigned x = 0; x < width; ++x)
        for (unsigned c = 0; c < channels; ++c)
          PutChannel(bytes, format, ValueAt(x, y, z, c, level));
  CUDA_MEMCPY3D copy = {};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = bytes.data();
  copy.srcPitch = std::size_t{width} * channels * SizeOfFormat(format);
  copy.srcHeight = height;
  copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.dstArray = array;
  copy.WidthInBytes = copy.srcPitch;
  copy.Height = height;
  copy.Depth = depth;
  gpu.Check(gpu.cuMemcpy3DAsync(&copy, nullptr), "cuMemcpy3DAsync");
  gpu.Check(gpu.cuStreamSynchronize(nullptr), "cuStreamSynchronize");
}

}  // namespace

float ValueAt(unsigned x, unsigned y, unsigned z, unsigned channel, unsigned level) {
  return static_cast<float>(x + 16 * y + 256 * z + 4096 * level) +
         0.25F * static_cast<float>(channel);
}

unsigned SizeOfFormat(CUarray_format format) {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
      return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      return 2;
    default:
      return 4;
  }
}

CUDA_RESOURCE_DESC MakeResource(Gpu& gpu, const Shape& shape, CUarray_format format,
                                unsigned channels) {
  CUDA_ARRAY3D_DESCRIPTOR descriptor = {};
  descriptor.Width = shape.width;
  descriptor.Height = shape.height;
  descriptor.Depth = shape.depth;
  descriptor.Format = format;
  descriptor.NumChannels = channels;
  descriptor.Flags = shape.flags;
  CUDA_RESOURCE_DESC resource = {};
  if (shape.levels > 1) {
    CUmipmappedArray mipmap = nullptr;
    gpu.Check(gpu.cuMipmappedArrayCreate(&mipmap, &descriptor, shape.levels),
              "cuMipmappedArrayCreate");
    for (unsigned level = 0; level < shape.levels; ++level) {
      CUarray array = nullptr;
      gpu.Check(gpu.cuMipmappedArrayGetLevel(&array, mipmap, level), "cuMipmappedArrayGetLevel");
      FillArray(gpu, array, shape, format, channels, level);
    }
    resource.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
    resource.res.mipmap.hMipmappedArray = mipmap;
    return resource;
  }
  CUarray array = nullptr;
  gpu.Check(gpu.cuArray3DCreate(&array, &descriptor), "cuArray3DCreate");
  FillArray(gpu, array, shape, format, channels, 0);
  resource.resType = CU_RESOURCE_TYPE_ARRAY;
  resource.res.array.hArray = array;
  return resource;
}

}  // namespace cuspan::ptx_forms

// Arrays, and their textures and surfaces.
#include "group.h"

namespace {

constexpr std::size_t kHuge = std::size_t{1} << 40;

CUDA_ARRAY3D_DESCRIPTOR Shape(std::size_t width, std::size_t height, std::size_t depth,
                              unsigned flags = 0) {
  CUDA_ARRAY3D_DESCRIPTOR shape{};
  shape.Width = width;
  shape.Height = height;
  shape.Depth = depth;
  shape.Format = CU_AD_FORMAT_FLOAT;
  shape.NumChannels = 1;
  shape.Flags = flags;
  return shape;
}

CUresult Create(const CUDA_ARRAY3D_DESCRIPTOR& shape) {
  CUarray array = nullptr;
  return cuArray3DCreate(&array, &shape);
}

CUresult Create(std::size_t width, std::size_t height, CUarray_format format, unsigned channels) {
  CUarray array = nullptr;
  const CUDA_ARRAY_DESCRIPTOR shape{width, height, format, channels};
  return cuArrayCreate(&array, &shape);
}

CUresult CreateLevels(const CUDA_ARRAY3D_DESCRIPTOR& shape, unsigned levels) {
  CUmipmappedArray array = nullptr;
  return cuMipmappedArrayCreate(&array, &shape, levels);
}

CUarray MakeArray(unsigned flags) {
  CUarray array = nullptr;
  const CUDA_ARRAY3D_DESCRIPTOR shape = Shape(16, 16, 0, flags);
  DRIVER(cuArray3DCreate(&array, &shape));
  return array;
}

CUDA_RESOURCE_DESC Resource(CUarray array) {
  CUDA_RESOURCE_DESC resource{};
  resource.resType = CU_RESOURCE_TYPE_ARRAY;
  resource.res.array.hArray = array;
  return resource;
}

CUDA_RESOURCE_DESC Linear(CUdeviceptr address, std::size_t bytes, unsigned channels = 1) {
  CUDA_RESOURCE_DESC resource{};
  resource.resType = CU_RESOURCE_TYPE_LINEAR;
  resource.res.linear.devPtr = address;
  resource.res.linear.format = CU_AD_FORMAT_FLOAT;
  resource.res.linear.numChannels = channels;
  resource.res.linear.sizeInBytes = bytes;
  return resource;
}

CUDA_RESOURCE_DESC Rows(CUdeviceptr address, std::size_t width, std::size_t height,
                        std::size_t pitch) {
  CUDA_RESOURCE_DESC resource{};
  resource.resType = CU_RESOURCE_TYPE_PITCH2D;
  resource.res.pitch2D.devPtr = address;
  resource.res.pitch2D.format = CU_AD_FORMAT_FLOAT;
  resource.res.pitch2D.numChannels = 1;
  resource.res.pitch2D.width = width;
  resource.res.pitch2D.height = height;
  resource.res.pitch2D.pitchInBytes = pitch;
  return resource;
}

CUresult Texture(const CUDA_RESOURCE_DESC& resource, const CUDA_TEXTURE_DESC& sampling = {}) {
  CUtexObject texture = 0;
  return cuTexObjectCreate(&texture, &resource, &sampling, nullptr);
}

CUresult Surface(const CUDA_RESOURCE_DESC& resource) {
  CUsurfObject surface = 0;
  return cuSurfObjectCreate(&surface, &resource);
}

}  // namespace

void Arrays() {
  StartContext();
  const CUarray array = MakeArray(0);
  CUarray out = nullptr;
  CUmipmappedArray levels = nullptr;
  const CUDA_ARRAY_DESCRIPTOR plane{16, 16, CU_AD_FORMAT_FLOAT, 1};
  const CUDA_ARRAY3D_DESCRIPTOR shape = Shape(16, 16, 0);
  BAD(cuArrayCreate(nullptr, &plane));
  BAD(cuArrayCreate(&out, nullptr));
  BAD(Create(0, 16, CU_AD_FORMAT_FLOAT, 1));
  BAD(Create(kHuge, 16, CU_AD_FORMAT_FLOAT, 1));
  BAD(Create(16, kHuge, CU_AD_FORMAT_FLOAT, 1));
  BAD(Create(16, 16, Rubbish<CUarray_format>(0), 1));
  BAD(Create(16, 16, Rubbish<CUarray_format>(0x7F), 1));
  BAD(Create(16, 16, CU_AD_FORMAT_FLOAT, 0));
  BAD(Create(16, 16, CU_AD_FORMAT_FLOAT, 3));
  BAD(Create(16, 16, CU_AD_FORMAT_FLOAT, 5));
  BAD(cuArray3DCreate(nullptr, &shape));
  BAD(cuArray3DCreate(&out, nullptr));
  BAD(Create(Shape(0, 16, 16)));
  BAD(Create(Shape(16, 0, 16)));
  BAD(Create(Shape(kHuge, 0, 0)));
  BAD(Create(Shape(16, 16, kHuge)));
  BAD(Create(Shape(16, 16, 0, 0x40000000)));
  BAD(Create(Shape(16, 16, 6, CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_SURFACE_LDST)));
  BAD(Create(Shape(16, 8, 6, CUDA_ARRAY3D_CUBEMAP)));
  BAD(Create(Shape(16, 16, 5, CUDA_ARRAY3D_CUBEMAP)));
  BAD(Create(Shape(16, 16, 7, CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_LAYERED)));
  BAD(Create(Shape(16, 16, 0, CUDA_ARRAY3D_LAYERED)));
  BAD(Create(Shape(16, 16, 1 << 20, CUDA_ARRAY3D_LAYERED)));
  BAD(Create(Shape(16, 0, 0, CUDA_ARRAY3D_TEXTURE_GATHER)));
  BAD(cuArrayGetDescriptor(nullptr, array));
  BAD(cuArray3DGetDescriptor(nullptr, array));
  BAD(cuMipmappedArrayCreate(nullptr, &shape, 2));
  BAD(cuMipmappedArrayCreate(&levels, nullptr, 2));
  BAD(CreateLevels(Shape(16, 16, 0), 0));
  BAD(CreateLevels(Shape(16, 16, 0), 100));
  BAD(CreateLevels(Shape(0, 0, 0), 2));
  DRIVER(cuMipmappedArrayCreate(&levels, &shape, 2));
  BAD(cuMipmappedArrayGetLevel(nullptr, levels, 0));
  BAD(cuMipmappedArrayGetLevel(&out, levels, 2));
  BAD(cuMipmappedArrayGetLevel(&out, levels, 1000));
  DRIVER(cuMipmappedArrayGetLevel(&out, levels, 1));
  BAD(cuMipmappedArrayDestroy(levels));
}

void Textures() {
  StartContext();
  const CUarray array = MakeArray(0);
  CUdeviceptr memory = 0;
  DRIVER(cuMemAlloc(&memory, 1 << 20));
  CUtexObject texture = 0;
  const CUDA_RESOURCE_DESC resource = Resource(array);
  CUDA_RESOURCE_VIEW_DESC got_view{};
  CUDA_RESOURCE_DESC unknown{};
  unknown.resType = Rubbish<CUresourcetype>(99);
  CUDA_RESOURCE_DESC no_levels{};
  no_levels.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
  const CUDA_TEXTURE_DESC plain{};
  CUDA_TEXTURE_DESC odd_mode{};
  odd_mode.addressMode[0] = Rubbish<CUaddress_mode>(99);
  CUDA_TEXTURE_DESC odd_filter{};
  odd_filter.filterMode = Rubbish<CUfilter_mode>(99);
  CUDA_TEXTURE_DESC odd_flags{};
  odd_flags.flags = 0x4000;
  CUDA_TEXTURE_DESC anisotropy{};
  anisotropy.maxAnisotropy = 1000;
  CUDA_TEXTURE_DESC wrap{};
  wrap.addressMode[0] = CU_TR_ADDRESS_MODE_WRAP;
  BAD(cuTexObjectCreate(nullptr, &resource, &plain, nullptr));
  BAD(cuTexObjectCreate(&texture, nullptr, &plain, nullptr));
  BAD(cuTexObjectCreate(&texture, &resource, nullptr, nullptr));
  BAD(Texture(unknown));
  BAD(Texture(Resource(nullptr)));
  BAD(Texture(no_levels));
  BAD(Texture(resource, odd_mode));
  BAD(Texture(resource, odd_filter));
  BAD(Texture(resource, odd_flags));
  BAD(Texture(resource, anisotropy));
  BAD(Texture(resource, wrap));
  BAD(Texture(Linear(0, 1024)));
  BAD(Texture(Linear(memory + 4, 1024)));
  BAD(Texture(Linear(memory, 0)));
  BAD(Texture(Linear(memory, 2)));
  BAD(Texture(Linear(memory, 2 << 20)));
  BAD(Texture(Linear(memory, std::size_t{1} << 50)));
  BAD(Texture(Linear(memory, 1024, 3)));
  BAD(Texture(Linear(memory, 1024, 0)));
  BAD(Texture(Linear(16, 1024)));
  BAD(Texture(Rows(0, 16, 16, 512)));
  BAD(Texture(Rows(memory + 4, 16, 16, 512)));
  BAD(Texture(Rows(memory, 16, 16, 63)));
  BAD(Texture(Rows(memory, 16, 16, 65)));
  BAD(Texture(Rows(memory, 0, 16, 512)));
  BAD(Texture(Rows(memory, 16, 0, 512)));
  BAD(Texture(Rows(memory, 1 << 24, 16, 1 << 26)));
  BAD(Texture(Rows(memory, 16, 1 << 24, 512)));
  DRIVER(cuTexObjectCreate(&texture, &resource, &plain, nullptr));
  BAD(cuTexObjectGetResourceDesc(nullptr, texture));
  BAD(cuTexObjectGetTextureDesc(nullptr, texture));
  BAD(cuTexObjectGetResourceViewDesc(nullptr, texture));
  BAD(cuTexObjectGetResourceViewDesc(&got_view, texture));
  BAD(cuTexObjectDestroy(texture));
}

void Surfaces() {
  StartContext();
  CUsurfObject surface = 0;
  CUdeviceptr memory = 0;
  DRIVER(cuMemAlloc(&memory, 1 << 20));
  const CUDA_RESOURCE_DESC good = Resource(MakeArray(CUDA_ARRAY3D_SURFACE_LDST));
  const CUDA_RESOURCE_DESC plain = Resource(MakeArray(0));
  CUDA_RESOURCE_DESC unknown{};
  unknown.resType = Rubbish<CUresourcetype>(99);
  FATAL(cuSurfObjectCreate(nullptr, &good));
  BAD(cuSurfObjectCreate(&surface, nullptr));
  BAD(Surface(unknown));
  BAD(Surface(plain));
  BAD(Surface(Linear(memory, 1024)));
  BAD(Surface(Rows(memory, 16, 16, 512)));
  BAD(Surface(Resource(nullptr)));
  DRIVER(cuSurfObjectCreate(&surface, &good));
  BAD(cuSurfObjectGetResourceDesc(nullptr, surface));
  BAD(cuSurfObjectDestroy(surface));
}

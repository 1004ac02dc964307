// Arrays, texture objects and surface objects: copies return the same contents. Kernels read them
// by the rules of CUDA's appendix on texture fetching: filters, addressing, layers, cubes, mipmaps.
#include <cmath>
#include <cstring>
#include <vector>

#include "check.h"

namespace {

int failures = 0;

template <typename T>
class Device {
 public:
  explicit Device(std::size_t count) : count_(count) {
    CHECK(cudaMalloc(&data_, count * sizeof(T)));
  }
  ~Device() { cudaFree(data_); }
  T* get() const { return data_; }
  std::vector<T> Values() const {
    std::vector<T> values(count_);
    CHECK(cudaMemcpy(values.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  T* data_ = nullptr;
  std::size_t count_;
};

void ExpectNear(const std::vector<float>& got, const std::vector<float>& expected, float tolerance,
                const char* what) {
  for (std::size_t i = 0, shown = 0; i < expected.size() && shown < 3; ++i) {
    if (std::fabs(got[i] - expected[i]) <= tolerance) continue;
    ++shown;
    EXPECT(false, "%s: value %zu is %g, not %g", what, i, got[i], expected[i]);
  }
}

cudaTextureDesc Sampling(cudaTextureAddressMode mode, cudaTextureFilterMode filter, bool normalized,
                         cudaTextureReadMode read = cudaReadModeElementType) {
  cudaTextureDesc desc{};
  for (auto& address : desc.addressMode) address = mode;
  desc.filterMode = filter;
  desc.readMode = read;
  desc.normalizedCoords = normalized ? 1 : 0;
  return desc;
}

cudaTextureObject_t TextureOf(cudaArray_t array, const cudaTextureDesc& desc) {
  cudaResourceDesc resource{};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  cudaTextureObject_t texture = 0;
  CHECK(cudaCreateTextureObject(&texture, &resource, &desc, nullptr));
  return texture;
}

__global__ void Read2D(cudaTextureObject_t texture, const float2* places, float* out, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] = tex2D<float>(texture, places[i].x, places[i].y);
}

std::vector<float> ReadAt(cudaTextureObject_t texture, const std::vector<float2>& places) {
  Device<float2> at(places.size());
  Device<float> out(places.size());
  CHECK(
      cudaMemcpy(at.get(), places.data(), places.size() * sizeof(float2), cudaMemcpyHostToDevice));
  const int count = static_cast<int>(places.size());
  Read2D<<<(count + 127) / 128, 128>>>(texture, at.get(), out.get(), count);
  CHECK_LAUNCH();
  return out.Values();
}

constexpr int kWidth = 37, kHeight = 21;
float Texel(int x, int y) { return static_cast<float>(x * 4 + y * 256); }

std::vector<float> Image() {
  std::vector<float> image(kWidth * kHeight);
  for (int y = 0; y < kHeight; ++y)
    for (int x = 0; x < kWidth; ++x) image[y * kWidth + x] = Texel(x, y);
  return image;
}

// Points, linear filtering, and addresses outside.
void TwoDimensions() {
  const std::vector<float> image = Image();
  const cudaChannelFormatDesc desc = cudaCreateChannelDesc<float>();
  cudaArray_t array = nullptr;
  CHECK(cudaMallocArray(&array, &desc, kWidth, kHeight));
  CHECK(cudaMemcpy2DToArray(array, 0, 0, image.data(), kWidth * sizeof(float),
                            kWidth * sizeof(float), kHeight, cudaMemcpyHostToDevice));
  std::vector<float> back(image.size());
  CHECK(cudaMemcpy2DFromArray(back.data(), kWidth * sizeof(float), array, 0, 0,
                              kWidth * sizeof(float), kHeight, cudaMemcpyDeviceToHost));
  EXPECT(back == image, "an array does not give back what was copied in");
  cudaChannelFormatDesc told{};
  cudaExtent extent{};
  unsigned flags = 99;
  CHECK(cudaArrayGetInfo(&told, &extent, &flags, array));
  EXPECT(told.x == 32 && told.y == 0 && told.f == cudaChannelFormatKindFloat, "format %d %d %d",
         told.x, told.y, static_cast<int>(told.f));
  EXPECT(extent.width == kWidth && extent.height == kHeight && extent.depth == 0 && flags == 0,
         "extent %zu %zu %zu", extent.width, extent.height, extent.depth);

  std::vector<float2> places;
  std::vector<float> expected;
  for (int y = 0; y < kHeight; ++y)
    for (int x = 0; x < kWidth; ++x) {
      places.push_back({x + 0.5f, y + 0.25f});
      expected.push_back(Texel(x, y));
    }
  cudaTextureObject_t texture =
      TextureOf(array, Sampling(cudaAddressModeClamp, cudaFilterModePoint, false));
  ExpectNear(ReadAt(texture, places), expected, 0, "points");
  // Outside, the nearest texel.
  ExpectNear(ReadAt(texture, {{-3.f, 2.5f}, {100.f, 2.5f}, {4.5f, -1.f}, {4.5f, 99.f}}),
             {Texel(0, 2), Texel(kWidth - 1, 2), Texel(4, 0), Texel(4, kHeight - 1)}, 0, "clamped");
  cudaResourceDesc resource{};
  CHECK(cudaGetTextureObjectResourceDesc(&resource, texture));
  EXPECT(resource.resType == cudaResourceTypeArray && resource.res.array.array == array,
         "another resource");
  CHECK(cudaDestroyTextureObject(texture));

  texture = TextureOf(array, Sampling(cudaAddressModeBorder, cudaFilterModePoint, false));
  ExpectNear(ReadAt(texture, {{-3.f, 2.5f}, {kWidth + 0.5f, 2.5f}, {3.5f, 2.5f}}),
             {0, 0, Texel(3, 2)}, 0, "border");
  CHECK(cudaDestroyTextureObject(texture));

  // Between four texels, with weights representable in eight bits.
  texture = TextureOf(array, Sampling(cudaAddressModeClamp, cudaFilterModeLinear, false));
  ExpectNear(ReadAt(texture, {{4.75f, 6.5f}, {4.5f, 7.0f}, {5.0f, 8.0f}, {0.25f, 0.5f}}),
             {Texel(4, 6) + 1.f, Texel(4, 6) + 128.f, Texel(4, 7) + 2.f + 128.f, Texel(0, 0)}, 0,
             "linear");
  CHECK(cudaDestroyTextureObject(texture));

  texture = TextureOf(array, Sampling(cudaAddressModeWrap, cudaFilterModePoint, true));
  ExpectNear(ReadAt(texture, {{1.f + 2.5f / kWidth, 0.5f / kHeight},
                              {-1.f + 3.5f / kWidth, 1.f + 4.5f / kHeight}}),
             {Texel(2, 0), Texel(3, 4)}, 0, "wrapped");
  CHECK(cudaDestroyTextureObject(texture));
  texture = TextureOf(array, Sampling(cudaAddressModeMirror, cudaFilterModePoint, true));
  ExpectNear(
      ReadAt(texture, {{-2.5f / kWidth, 0.5f / kHeight}, {2.f - 3.5f / kWidth, 4.5f / kHeight}}),
      {Texel(2, 0), Texel(3, 4)}, 0, "mirrored");
  CHECK(cudaDestroyTextureObject(texture));
  CHECK(cudaFreeArray(array));
}

// Small integers as fractions, and unchanged.
__global__ void ReadBytes(cudaTextureObject_t fractions, cudaTextureObject_t bytes, float4* out,
                          uchar4* same) {
  const int i = threadIdx.x;
  out[i] = tex2D<float4>(fractions, i + 0.5f, 0.5f);
  same[i] = tex2D<uchar4>(bytes, i + 0.5f, 0.5f);
}

void Fractions() {
  std::vector<uchar4> row(64);
  for (int i = 0; i < 64; ++i)
    row[i] =
        make_uchar4(static_cast<unsigned char>(i), static_cast<unsigned char>(255 - i), 255, 0);
  const cudaChannelFormatDesc desc = cudaCreateChannelDesc<uchar4>();
  cudaArray_t array = nullptr;
  CHECK(cudaMallocArray(&array, &desc, 64, 1));
  CHECK(cudaMemcpy2DToArray(array, 0, 0, row.data(), 256, 256, 1, cudaMemcpyHostToDevice));
  const cudaTextureObject_t fractions = TextureOf(
      array,
      Sampling(cudaAddressModeClamp, cudaFilterModePoint, false, cudaReadModeNormalizedFloat));
  const cudaTextureObject_t bytes =
      TextureOf(array, Sampling(cudaAddressModeClamp, cudaFilterModePoint, false));
  Device<float4> out(64);
  Device<uchar4> same(64);
  ReadBytes<<<1, 64>>>(fractions, bytes, out.get(), same.get());
  CHECK_LAUNCH();
  const auto got = out.Values();
  const auto kept = same.Values();
  for (int i = 0; i < 64; ++i) {
    EXPECT(std::fabs(got[i].x - i / 255.f) < 1e-6f &&
               std::fabs(got[i].y - (255 - i) / 255.f) < 1e-6f && got[i].z == 1.f &&
               got[i].w == 0.f,
           "fraction %d is %g %g %g %g", i, got[i].x, got[i].y, got[i].z, got[i].w);
    EXPECT(std::memcmp(&kept[i], &row[i], 4) == 0, "element %d has changed", i);
  }
  CHECK(cudaDestroyTextureObject(fractions));
  CHECK(cudaDestroyTextureObject(bytes));
  CHECK(cudaFreeArray(array));
}

// Memory as a texture: contiguous, and rows with a pitch.
__global__ void ReadMemory(cudaTextureObject_t run, cudaTextureObject_t rows, int* one,
                           float* two) {
  one[threadIdx.x] = tex1Dfetch<int>(run, static_cast<int>(threadIdx.x));
  two[threadIdx.x] = tex2D<float>(rows, threadIdx.x % 8 + 0.5f, threadIdx.x / 8 + 0.5f);
}

void Memory() {
  std::vector<int> run(64);
  std::vector<float> rows(64);
  for (int i = 0; i < 64; ++i) {
    run[i] = i * i - 5;
    rows[i] = i * 0.25f;
  }
  int* memory = nullptr;
  float* pitched = nullptr;
  std::size_t pitch = 0;
  CHECK(cudaMalloc(&memory, 256));
  CHECK(cudaMallocPitch(&pitched, &pitch, 32, 8));
  CHECK(cudaMemcpy(memory, run.data(), 256, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy2D(pitched, pitch, rows.data(), 32, 32, 8, cudaMemcpyHostToDevice));
  cudaResourceDesc linear{};
  linear.resType = cudaResourceTypeLinear;
  linear.res.linear.devPtr = memory;
  linear.res.linear.desc = cudaCreateChannelDesc<int>();
  linear.res.linear.sizeInBytes = 256;
  cudaResourceDesc plane{};
  plane.resType = cudaResourceTypePitch2D;
  plane.res.pitch2D.devPtr = pitched;
  plane.res.pitch2D.desc = cudaCreateChannelDesc<float>();
  plane.res.pitch2D.width = 8;
  plane.res.pitch2D.height = 8;
  plane.res.pitch2D.pitchInBytes = pitch;
  const cudaTextureDesc desc = Sampling(cudaAddressModeClamp, cudaFilterModePoint, false);
  cudaTextureObject_t one = 0, two = 0;
  CHECK(cudaCreateTextureObject(&one, &linear, &desc, nullptr));
  CHECK(cudaCreateTextureObject(&two, &plane, &desc, nullptr));
  Device<int> ints(64);
  Device<float> floats(64);
  ReadMemory<<<1, 64>>>(one, two, ints.get(), floats.get());
  CHECK_LAUNCH();
  EXPECT(ints.Values() == run, "a run of memory");
  ExpectNear(floats.Values(), rows, 0, "rows of memory");
  CHECK(cudaDestroyTextureObject(one));
  CHECK(cudaDestroyTextureObject(two));
  CHECK(cudaFree(memory));
  CHECK(cudaFree(pitched));
}

// Three dimensions, layers, and the faces of a cube.
constexpr int kSide = 16;
float Voxel(int x, int y, int z) { return static_cast<float>(x + y * 20 + z * 400); }

__global__ void ReadVolume(cudaTextureObject_t texture, float* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const int x = i % kSide, y = i / kSide % kSide, z = i / (kSide * kSide);
  out[i] = tex3D<float>(texture, x + 0.5f, y + 0.5f, z + 0.5f);
}
__global__ void ReadLayers(cudaTextureObject_t texture, float* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const int x = i % kSide, y = i / kSide % kSide, z = i / (kSide * kSide);
  out[i] = tex2DLayered<float>(texture, x + 0.5f, y + 0.5f, z);
}
// The middle of each face: +x −x +y −y +z −z.
__global__ void ReadFaces(cudaTextureObject_t texture, float* out) {
  const float x[6] = {1, -1, 0, 0, 0, 0}, y[6] = {0, 0, 1, -1, 0, 0}, z[6] = {0, 0, 0, 0, 1, -1};
  out[threadIdx.x] = texCubemap<float>(texture, x[threadIdx.x], y[threadIdx.x], z[threadIdx.x]);
}

cudaArray_t Volume(int depth, unsigned flags, const std::vector<float>& values) {
  const cudaChannelFormatDesc desc = cudaCreateChannelDesc<float>();
  cudaArray_t array = nullptr;
  CHECK(cudaMalloc3DArray(&array, &desc, make_cudaExtent(kSide, kSide, depth), flags));
  cudaMemcpy3DParms copy{};
  copy.srcPtr =
      make_cudaPitchedPtr(const_cast<float*>(values.data()), kSide * sizeof(float), kSide, kSide);
  copy.dstArray = array;
  copy.extent = make_cudaExtent(kSide, kSide, depth);
  copy.kind = cudaMemcpyHostToDevice;
  CHECK(cudaMemcpy3D(&copy));
  return array;
}

void ThreeDimensions() {
  constexpr int kDepth = 8;
  std::vector<float> values(kSide * kSide * kDepth);
  for (int z = 0; z < kDepth; ++z)
    for (int y = 0; y < kSide; ++y)
      for (int x = 0; x < kSide; ++x) values[(z * kSide + y) * kSide + x] = Voxel(x, y, z);
  const cudaTextureDesc desc = Sampling(cudaAddressModeClamp, cudaFilterModePoint, false);
  Device<float> out(values.size());
  cudaArray_t array = Volume(kDepth, cudaArrayDefault, values);
  cudaTextureObject_t texture = TextureOf(array, desc);
  ReadVolume<<<kDepth, kSide * kSide>>>(texture, out.get());
  CHECK_LAUNCH();
  ExpectNear(out.Values(), values, 0, "a volume");
  CHECK(cudaDestroyTextureObject(texture));
  CHECK(cudaFreeArray(array));

  array = Volume(kDepth, cudaArrayLayered, values);
  texture = TextureOf(array, desc);
  ReadLayers<<<kDepth, kSide * kSide>>>(texture, out.get());
  CHECK_LAUNCH();
  ExpectNear(out.Values(), values, 0, "layers");
  CHECK(cudaDestroyTextureObject(texture));
  CHECK(cudaFreeArray(array));

  std::vector<float> faces(kSide * kSide * 6);
  for (std::size_t i = 0; i < faces.size(); ++i)
    faces[i] = static_cast<float>(i / (kSide * kSide) + 1);
  array = Volume(6, cudaArrayCubemap, faces);
  texture = TextureOf(array, Sampling(cudaAddressModeClamp, cudaFilterModePoint, true));
  ReadFaces<<<1, 6>>>(texture, out.get());
  CHECK_LAUNCH();
  ExpectNear(out.Values(), {1, 2, 3, 4, 5, 6}, 0, "a cube");
  CHECK(cudaDestroyTextureObject(texture));
  CHECK(cudaFreeArray(array));
}

__global__ void ReadLevels(cudaTextureObject_t texture, float* out) {
  out[threadIdx.x] = tex2DLod<float>(texture, 0.5f, 0.5f, static_cast<float>(threadIdx.x));
}

void Mipmaps() {
  const cudaChannelFormatDesc desc = cudaCreateChannelDesc<float>();
  cudaMipmappedArray_t mipmap = nullptr;
  CHECK(cudaMallocMipmappedArray(&mipmap, &desc, make_cudaExtent(kSide, kSide, 0), 5));
  for (unsigned level = 0; level < 5; ++level) {
    cudaArray_t array = nullptr;
    CHECK(cudaGetMipmappedArrayLevel(&array, mipmap, level));
    cudaExtent extent{};
    CHECK(cudaArrayGetInfo(nullptr, &extent, nullptr, array));
    const std::size_t side = kSide >> level;
    EXPECT(extent.width == side && extent.height == side, "level %u is %zu x %zu", level,
           extent.width, extent.height);
    const std::vector<float> values(side * side, level * 10.f + 1);
    CHECK(cudaMemcpy2DToArray(array, 0, 0, values.data(), side * 4, side * 4, side,
                              cudaMemcpyHostToDevice));
  }
  cudaResourceDesc resource{};
  resource.resType = cudaResourceTypeMipmappedArray;
  resource.res.mipmap.mipmap = mipmap;
  cudaTextureDesc sampling = Sampling(cudaAddressModeClamp, cudaFilterModePoint, true);
  sampling.mipmapFilterMode = cudaFilterModePoint;
  sampling.maxMipmapLevelClamp = 4;
  cudaTextureObject_t texture = 0;
  CHECK(cudaCreateTextureObject(&texture, &resource, &sampling, nullptr));
  Device<float> out(5);
  ReadLevels<<<1, 5>>>(texture, out.get());
  CHECK_LAUNCH();
  ExpectNear(out.Values(), {1, 11, 21, 31, 41}, 0, "levels");
  CHECK(cudaDestroyTextureObject(texture));
  CHECK(cudaFreeMipmappedArray(mipmap));
}

// A kernel writes a surface, another reads it as a texture.
__global__ void Write(cudaSurfaceObject_t surface) {
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(blockIdx.x);
  surf2Dwrite(static_cast<float>(x * 4 + y * 256), surface, x * static_cast<int>(sizeof(float)), y);
}
__global__ void Double(cudaSurfaceObject_t surface) {
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(blockIdx.x);
  float value = 0;
  surf2Dread(&value, surface, x * static_cast<int>(sizeof(float)), y);
  surf2Dwrite(value * 2, surface, x * static_cast<int>(sizeof(float)), y);
}

void Surfaces() {
  const cudaChannelFormatDesc desc = cudaCreateChannelDesc<float>();
  cudaArray_t array = nullptr;
  CHECK(cudaMallocArray(&array, &desc, kWidth, kHeight, cudaArraySurfaceLoadStore));
  cudaResourceDesc resource{};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  cudaSurfaceObject_t surface = 0;
  CHECK(cudaCreateSurfaceObject(&surface, &resource));
  Write<<<kHeight, kWidth>>>(surface);
  CHECK_LAUNCH();
  Double<<<kHeight, kWidth>>>(surface);
  CHECK_LAUNCH();
  std::vector<float> back(kWidth * kHeight);
  CHECK(cudaMemcpy2DFromArray(back.data(), kWidth * sizeof(float), array, 0, 0,
                              kWidth * sizeof(float), kHeight, cudaMemcpyDeviceToHost));
  std::vector<float> expected = Image();
  for (float& value : expected) value *= 2;
  ExpectNear(back, expected, 0, "a surface");
  CHECK(cudaDestroySurfaceObject(surface));
  // A part of one array to another.
  cudaArray_t other = nullptr;
  CHECK(cudaMallocArray(&other, &desc, kWidth, kHeight));
  CHECK(cudaMemcpy2DArrayToArray(other, 4 * sizeof(float), 3, array, 8 * sizeof(float), 5,
                                 10 * sizeof(float), 6, cudaMemcpyDeviceToDevice));
  std::vector<float> part(60);
  CHECK(cudaMemcpy2DFromArray(part.data(), 10 * sizeof(float), other, 4 * sizeof(float), 3,
                              10 * sizeof(float), 6, cudaMemcpyDeviceToHost));
  std::vector<float> wanted;
  for (int y = 5; y < 11; ++y)
    for (int x = 8; x < 18; ++x) wanted.push_back(2 * Texel(x, y));
  ExpectNear(part, wanted, 0, "a part of an array");
  CHECK(cudaFreeArray(other));
  CHECK(cudaFreeArray(array));
}

void Refused() {
  cudaArray_t array = nullptr;
  const cudaChannelFormatDesc three{32, 32, 32, 0, cudaChannelFormatKindFloat};
  EXPECT(cudaMallocArray(&array, &three, 16, 16) != cudaSuccess, "an array of three channels");
  const cudaChannelFormatDesc desc = cudaCreateChannelDesc<float>();
  EXPECT(cudaMalloc3DArray(&array, &desc, make_cudaExtent(16, 8, 6), cudaArrayCubemap) ==
             cudaErrorInvalidValue,
         "a cube whose faces are no squares");
  CHECK(cudaMallocArray(&array, &desc, 16, 16));
  const std::vector<float> values(17 * 17);
  EXPECT(cudaMemcpy2DToArray(array, 0, 0, values.data(), 68, 68, 16, cudaMemcpyHostToDevice) ==
             cudaErrorInvalidValue,
         "rows that the array does not have");
  static_cast<void>(cudaGetLastError());
  CHECK(cudaFreeArray(array));
}

}  // namespace

int main() {
  DeviceCount();
  TwoDimensions();
  Fractions();
  Memory();
  ThreeDimensions();
  Mipmaps();
  Surfaces();
  Refused();
  CHECK(cudaDeviceSynchronize());
  std::printf("textures: %s\n", Verdict(failures));
  return ExitStatus(failures);
}

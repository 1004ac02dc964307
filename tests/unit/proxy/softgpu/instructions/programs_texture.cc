// Textures and surfaces. (CUDA C++ Programming Guide, "Texture Fetching"; PTX ISA,
// "Texture Instructions", "Surface Instructions")
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "tests/unit/proxy/softgpu/instructions/gpu.h"
#include "tests/unit/proxy/softgpu/instructions/numbers.h"

namespace cuspan::ptx_forms {
namespace {

using U = std::uint32_t;

U AsBits(float x) { return std::bit_cast<U>(x); }

// What the tests make images of: texel (x, y, z) of a level has known channels.
struct Shape {
  unsigned width = 8, height = 0, depth = 0, flags = 0, levels = 1;
};

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

// Bytes of one channel: floats have ValueAt, integers its whole part cut to the type.
void PutChannel(std::vector<std::uint8_t>& bytes, CUarray_format format, float value) {
  U bits = static_cast<U>(static_cast<std::int32_t>(value) * 3 + 7);
  if (format == CU_AD_FORMAT_FLOAT) bits = AsBits(value);
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

struct Sampler {
  CUaddress_mode mode = CU_TR_ADDRESS_MODE_CLAMP;
  bool linear = false;
  bool normalised = false;
  bool integers = false;  // Read as integers.
  bool srgb = false;
  bool linear_mipmap = false;
};

std::function<std::uint64_t(Gpu&)> Texture(Shape shape, CUarray_format format, unsigned channels,
                                           Sampler sampler) {
  return [=](Gpu& gpu) {
    const CUDA_RESOURCE_DESC resource = MakeResource(gpu, shape, format, channels);
    CUDA_TEXTURE_DESC texture = {};
    for (auto& mode : texture.addressMode) mode = sampler.mode;
    texture.filterMode = sampler.linear ? CU_TR_FILTER_MODE_LINEAR : CU_TR_FILTER_MODE_POINT;
    texture.mipmapFilterMode =
        sampler.linear_mipmap ? CU_TR_FILTER_MODE_LINEAR : CU_TR_FILTER_MODE_POINT;
    texture.flags = (sampler.normalised ? CU_TRSF_NORMALIZED_COORDINATES : 0) |
                    (sampler.integers ? CU_TRSF_READ_AS_INTEGER : 0) |
                    (sampler.srgb ? CU_TRSF_SRGB : 0);
    texture.maxMipmapLevelClamp = 16;
    texture.borderColor[0] = 5;
    texture.borderColor[1] = 6;
    CUtexObject object = 0;
    gpu.Check(gpu.cuTexObjectCreate(&object, &resource, &texture, nullptr), "cuTexObjectCreate");
    return std::uint64_t{object};
  };
}

std::function<std::uint64_t(Gpu&)> Surface(Shape shape, CUarray_format format, unsigned channels) {
  shape.flags |= CUDA_ARRAY3D_SURFACE_LDST;
  return [=](Gpu& gpu) {
    const CUDA_RESOURCE_DESC resource = MakeResource(gpu, shape, format, channels);
    CUsurfObject object = 0;
    gpu.Check(gpu.cuSurfObjectCreate(&object, &resource), "cuSurfObjectCreate");
    return std::uint64_t{object};
  };
}

// --- The reference

int Address(CUaddress_mode mode, int i, int size) {
  switch (mode) {
    case CU_TR_ADDRESS_MODE_WRAP:
      return (i % size + size) % size;
    case CU_TR_ADDRESS_MODE_CLAMP:
      return std::clamp(i, 0, size - 1);
    case CU_TR_ADDRESS_MODE_MIRROR: {
      const int j = (i % (2 * size) + 2 * size) % (2 * size);
      return j < size ? j : 2 * size - 1 - j;
    }
    default:
      return i >= 0 && i < size ? i : -1;
  }
}

struct Place {
  std::vector<float> at;  // Of each dimension, in texels.
  int slice = 0;          // Of layers.
};

double TexelAt(const Shape& shape, const Sampler& sampler, const std::vector<int>& index, int slice,
               unsigned channel, unsigned level) {
  const int sizes[3] = {static_cast<int>(std::max(shape.width >> level, 1U)),
                        static_cast<int>(std::max(shape.height >> level, 1U)),
                        static_cast<int>(std::max(shape.depth, 1U))};
  int at[3] = {0, 0, slice};
  for (std::size_t i = 0; i < index.size(); ++i) {
    at[i] = Address(sampler.mode, index[i], sizes[i]);
    if (at[i] < 0) return channel == 0 ? 5 : channel == 1 ? 6 : 0;
  }
  return ValueAt(static_cast<unsigned>(at[0]), static_cast<unsigned>(at[1]),
                 static_cast<unsigned>(at[2]), channel, level);
}

double Sample(const Shape& shape, const Sampler& sampler, const Place& place, unsigned channel,
              unsigned level = 0) {
  std::vector<int> index;
  if (!sampler.linear) {
    for (const float x : place.at) index.push_back(static_cast<int>(std::floor(x)));
    return TexelAt(shape, sampler, index, place.slice, channel, level);
  }
  double sum = 0;
  for (unsigned corner = 0; corner < 1U << place.at.size(); ++corner) {
    double weight = 1;
    index.clear();
    for (std::size_t i = 0; i < place.at.size(); ++i) {
      const float below = std::floor(place.at[i] - 0.5F);
      const double fraction = std::floor((place.at[i] - 0.5F - below) * 256 + 0.5F) / 256;
      const bool next = (corner >> i & 1) != 0;
      weight *= next ? fraction : 1 - fraction;
      index.push_back(static_cast<int>(below) + (next ? 1 : 0));
    }
    if (weight != 0) sum += weight * TexelAt(shape, sampler, index, place.slice, channel, level);
  }
  return sum;
}

// --- Programs

constexpr unsigned kThreads = 32;

struct Fetch {
  std::string name;
  std::string instruction;  // With {%f0, %f1, %f2, %f3} or {%r0 … %r3} as its result.
  Shape shape;
  CUarray_format format = CU_AD_FORMAT_FLOAT;
  unsigned channels = 4;
  Sampler sampler;
  unsigned coordinates = 2;  // Read to %f8 …, as floats, and converted to %r8 … as well.
  double tolerance = 0;
  unsigned results = 2;
};

// `expected(coordinates, channel)`
template <typename Expected>
void Add(const Fetch& fetch, Kind kind, Expected expected,
         const std::function<float(unsigned, unsigned)>& coordinate) {
  Program program;
  program.group = "texture";
  program.name = fetch.name;
  program.threads = kThreads;
  program.words_out = fetch.results;
  program.kind = kind;
  program.tolerance.absolute = fetch.tolerance;
  program.image = Texture(fetch.shape, fetch.format, fetch.channels, fetch.sampler);
  program.body = "mul.wide.u32 %rd0, %me, 16; add.s64 %rd0, %in, %rd0;\n";
  for (unsigned i = 0; i < fetch.coordinates; ++i) {
    const std::string f = "%f" + std::to_string(8 + i), r = "%r" + std::to_string(8 + i);
    program.body += "ld.global.f32 " + f + ", [%rd0+" + std::to_string(4 * i) +
                    "]; cvt.rmi.s32.f32 " + r + ", " + f + ";\n";
  }
  program.body += fetch.instruction + "\n";
  const bool floats = kind == Kind::kFloat;
  for (unsigned i = 0; i < fetch.results; ++i)
    program.body += std::string("st.global.b32 [%out+") + std::to_string(4 * i) + "], " +
                    (floats ? "%f" : "%r") + std::to_string(i) + ";\n";
  for (unsigned t = 0; t < kThreads; ++t) {
    std::vector<float> at(4);
    for (unsigned i = 0; i < 4; ++i) at[i] = i < fetch.coordinates ? coordinate(t, i) : 0;
    for (const float x : at) program.input.push_back(AsBits(x));
    for (unsigned c = 0; c < fetch.results; ++c) {
      const double value = expected(at, c);
      program.expected.push_back(floats ? AsBits(static_cast<float>(value))
                                        : static_cast<U>(static_cast<std::int64_t>(value)));
    }
  }
  Programs().push_back(std::move(program));
}

const char* const kFloatResult = "{%f0, %f1, %f2, %f3}";
const char* const kWordResult = "{%r0, %r1, %r2, %r3}";

const char* NameOf(CUaddress_mode mode) {
  switch (mode) {
    case CU_TR_ADDRESS_MODE_WRAP:
      return "wrap";
    case CU_TR_ADDRESS_MODE_CLAMP:
      return "clamp";
    case CU_TR_ADDRESS_MODE_MIRROR:
      return "mirror";
    default:
      return "border";
  }
}

// Coordinates on and beyond both edges, multiples of 1/16 so that no rounding matters.
float Spread(unsigned t, unsigned i) {
  return static_cast<float>((t * (i + 3) * 7 + 5 * i) % 47) * 0.3125F - 3.0625F;
}

void AddModes() {
  const Shape line{8}, plane{8, 8}, box{8, 8, 4};
  struct Geometry {
    const char* name;
    Shape shape;
    unsigned dimensions;
    const char* coordinates;
  };
  const Geometry geometries[] = {{"1d", line, 1, "{%f8}"},
                                 {"2d", plane, 2, "{%f8, %f9}"},
                                 {"3d", box, 3, "{%f8, %f9, %f10, %f10}"}};
  for (const Geometry& g : geometries) {
    for (const bool normalised : {false, true}) {
      for (const bool linear : {false, true}) {
        for (const CUaddress_mode mode : {CU_TR_ADDRESS_MODE_CLAMP, CU_TR_ADDRESS_MODE_BORDER,
                                          CU_TR_ADDRESS_MODE_WRAP, CU_TR_ADDRESS_MODE_MIRROR}) {
          if (!normalised && (mode == CU_TR_ADDRESS_MODE_WRAP || mode == CU_TR_ADDRESS_MODE_MIRROR))
            continue;
          Fetch fetch;
          fetch.sampler = {.mode = mode, .linear = linear, .normalised = normalised};
          fetch.shape = g.shape;
          fetch.coordinates = g.dimensions;
          fetch.name = std::string("tex.") + g.name + ".v4.f32.f32 " + NameOf(mode) +
                       (linear ? " linear" : " nearest") + (normalised ? " normalised" : "");
          fetch.instruction = std::string("tex.") + g.name + ".v4.f32.f32 " + kFloatResult +
                              ", [%image, " + g.coordinates + "];";
          // Sums of weighted texels may round differently.
          fetch.tolerance = linear ? 0.01 : 0;
          const auto sampler = fetch.sampler;
          const Shape shape = g.shape;
          const unsigned dimensions = g.dimensions;
          const float sizes[3] = {8, 8, 4};
          Add(
              fetch, Kind::kFloat,
              [=](const std::vector<float>& at, unsigned c) {
                Place place;
                for (unsigned i = 0; i < dimensions; ++i)
                  place.at.push_back(normalised ? at[i] * sizes[i] : at[i]);
                return Sample(shape, sampler, place, c);
              },
              [=](unsigned t, unsigned i) {
                return normalised ? Spread(t, i) / sizes[i] : Spread(t, i);
              });
        }
      }
    }
  }
}

void AddOthers() {
  const auto inside = [](unsigned t, unsigned i) {
    return static_cast<float>((t * (i + 3) + i) % 8) + 0.25F;
  };
  // Integer coordinates, and integer texels.
  Fetch fetch;
  fetch.shape = {8, 8};
  fetch.name = "tex.2d.v4.f32.s32";
  fetch.instruction = std::string("tex.2d.v4.f32.s32 ") + kFloatResult + ", [%image, {%r8, %r9}];";
  Add(
      fetch, Kind::kFloat,
      [=](const std::vector<float>& at, unsigned c) {
        return Sample(fetch.shape, fetch.sampler, {{at[0], at[1]}, 0}, c);
      },
      inside);
  for (const CUarray_format format :
       {CU_AD_FORMAT_UNSIGNED_INT8, CU_AD_FORMAT_SIGNED_INT8, CU_AD_FORMAT_UNSIGNED_INT16,
        CU_AD_FORMAT_SIGNED_INT16, CU_AD_FORMAT_UNSIGNED_INT32, CU_AD_FORMAT_SIGNED_INT32}) {
    const unsigned bits = 8 * SizeOfFormat(format);
    const bool is_signed = format == CU_AD_FORMAT_SIGNED_INT8 ||
                           format == CU_AD_FORMAT_SIGNED_INT16 ||
                           format == CU_AD_FORMAT_SIGNED_INT32;
    const auto stored = [=](const std::vector<float>& at, unsigned c) {
      const float value =
          ValueAt(static_cast<unsigned>(at[0]), static_cast<unsigned>(at[1]), 0, c, 0);
      const U raw = static_cast<U>(static_cast<std::int32_t>(value) * 3 + 7) << (32 - bits);
      return is_signed ? static_cast<std::int32_t>(raw) >> (32 - bits)
                       : static_cast<std::int64_t>(raw >> (32 - bits));
    };
    Fetch integers = fetch;
    integers.format = format;
    integers.sampler.integers = true;
    const std::string type = is_signed ? "s32" : "u32";
    integers.name = "tex.2d.v4." + type + ".f32 of " + std::to_string(bits) + " bits";
    integers.instruction = "tex.2d.v4." + type + ".f32 " + kWordResult + ", [%image, {%f8, %f9}];";
    Add(
        integers, Kind::kU32,
        [=](const std::vector<float>& at, unsigned c) {
          return static_cast<double>(stored(at, c));
        },
        inside);
    if (bits == 32) continue;
    Fetch normalised = fetch;
    normalised.format = format;
    normalised.name =
        "tex.2d.v4.f32.f32 of normalised " + type + " of " + std::to_string(bits) + " bits";
    normalised.instruction =
        std::string("tex.2d.v4.f32.f32 ") + kFloatResult + ", [%image, {%f8, %f9}];";
    normalised.tolerance = 1e-6;
    const double scale = std::ldexp(1.0, static_cast<int>(bits) - (is_signed ? 1 : 0)) - 1;
    Add(
        normalised, Kind::kFloat,
        [=](const std::vector<float>& at, unsigned c) {
          return std::max(static_cast<double>(stored(at, c)) / scale, -1.0);
        },
        inside);
    if (format != CU_AD_FORMAT_UNSIGNED_INT8) continue;
    Fetch srgb = normalised;
    srgb.name = "tex.2d.v4.f32.f32 of sRGB";
    srgb.sampler.srgb = true;
    srgb.tolerance = 0.002;
    Add(
        srgb, Kind::kFloat,
        [=](const std::vector<float>& at, unsigned c) {
          const double v = static_cast<double>(stored(at, c)) / 255;
          return v <= 0.04045 ? v / 12.92 : std::pow((v + 0.055) / 1.055, 2.4);
        },
        inside);
  }
  Fetch halves = fetch;
  halves.format = CU_AD_FORMAT_HALF;
  halves.name = "tex.2d.v4.f32.f32 of f16";
  halves.instruction = std::string("tex.2d.v4.f32.f32 ") + kFloatResult + ", [%image, {%f8, %f9}];";
  Add(
      halves, Kind::kFloat,
      [=](const std::vector<float>& at, unsigned c) {
        return Sample(fetch.shape, fetch.sampler, {{at[0], at[1]}, 0}, c);
      },
      inside);
  // Layers
  const auto layered = [](unsigned t, unsigned i) {
    return i == 2 ? static_cast<float>(t % 6) : static_cast<float>((t * 5 + i) % 8) + 0.25F;
  };
  Fetch planes = fetch;
  planes.shape = {8, 8, 4, CUDA_ARRAY3D_LAYERED};
  planes.coordinates = 3;
  planes.name = "tex.a2d.v4.f32.f32";
  planes.instruction =
      std::string("tex.a2d.v4.f32.f32 ") + kFloatResult + ", [%image, {%r10, %f8, %f9, %f9}];";
  Add(
      planes, Kind::kFloat,
      [=](const std::vector<float>& at, unsigned c) {
        return Sample(planes.shape, planes.sampler,
                      {{at[0], at[1]}, std::min(static_cast<int>(at[2]), 3)}, c);
      },
      layered);
  Fetch lines = planes;
  lines.shape = {8, 0, 4, CUDA_ARRAY3D_LAYERED};
  lines.name = "tex.a1d.v4.f32.f32";
  lines.instruction =
      std::string("tex.a1d.v4.f32.f32 ") + kFloatResult + ", [%image, {%r10, %f8}];";
  Add(
      lines, Kind::kFloat,
      [=](const std::vector<float>& at, unsigned c) {
        return ValueAt(static_cast<unsigned>(at[0]), 0,
                       static_cast<unsigned>(std::min(at[2], 3.0F)), c, 0);
      },
      layered);
  // Cubes: the middle of each face, and places towards its corners.
  Fetch cube = planes;
  cube.shape = {8, 8, 6, CUDA_ARRAY3D_CUBEMAP};
  cube.sampler.normalised = true;
  cube.name = "tex.cube.v4.f32.f32";
  cube.instruction =
      std::string("tex.cube.v4.f32.f32 ") + kFloatResult + ", [%image, {%f8, %f9, %f10, %f10}];";
  const auto direction = [](unsigned t, unsigned i) {
    const unsigned face = t % 6;
    const float side = (t / 6) % 2 == 0 ? 0.3F : -0.7F;
    if (i == face / 2) return face % 2 == 0 ? 1.0F : -1.0F;
    return i == 1 ? side : i == 0 ? 0.2F - side : side / 2 + 0.1F;
  };
  const auto on_face = [](const std::vector<float>& at, unsigned c, unsigned first) {
    const float x = at[0], y = at[1], z = at[2];
    const float ax = std::fabs(x), ay = std::fabs(y), az = std::fabs(z);
    unsigned face = 0;
    float s = 0, t = 0, major = 0;
    if (ax >= ay && ax >= az) {
      face = x > 0 ? 0 : 1, major = ax, s = x > 0 ? -z : z, t = -y;
    } else if (ay >= az) {
      face = y > 0 ? 2 : 3, major = ay, s = x, t = y > 0 ? z : -z;
    } else {
      face = z > 0 ? 4 : 5, major = az, s = z > 0 ? x : -x, t = -y;
    }
    const auto index = [&](float v) {
      return static_cast<unsigned>(std::clamp(std::floor((v / major + 1) / 2 * 8), 0.0F, 7.0F));
    };
    return static_cast<double>(ValueAt(index(s), index(t), first + face, c, 0));
  };
  Add(
      cube, Kind::kFloat,
      [=](const std::vector<float>& at, unsigned c) { return on_face(at, c, 0); }, direction);
  Fetch cubes = cube;
  cubes.shape = {8, 8, 12, CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_LAYERED};
  cubes.name = "tex.acube.v4.f32.f32";
  cubes.instruction = std::string("and.b32 %r20, %me, 1; tex.acube.v4.f32.f32 ") + kFloatResult +
                      ", [%image, {%r20, %f8, %f9, %f10}];";
  unsigned thread = 0;
  Add(
      cubes, Kind::kFloat,
      [=, &thread](const std::vector<float>& at, unsigned c) {
        return on_face(at, c, (thread++ / 2) % 2 * 6);
      },
      direction);
}

void AddLevels() {
  Fetch fetch;
  fetch.shape = {8, 8, 0, 0, 4};
  fetch.sampler.normalised = true;
  fetch.coordinates = 3;
  const auto coordinate = [](unsigned t, unsigned i) {
    return i == 2 ? static_cast<float>(t % 4) : (static_cast<float>((t * 3 + i) % 8) + 0.5F) / 8;
  };
  const auto at_level = [=](const std::vector<float>& at, unsigned c, unsigned level) {
    const float size = static_cast<float>(8 >> level);
    return Sample(fetch.shape, fetch.sampler, {{at[0] * size, at[1] * size}, 0}, c, level);
  };
  fetch.name = "tex.level.2d.v4.f32.f32";
  fetch.instruction =
      std::string("tex.level.2d.v4.f32.f32 ") + kFloatResult + ", [%image, {%f8, %f9}], %f10;";
  Add(
      fetch, Kind::kFloat,
      [=](const std::vector<float>& at, unsigned c) {
        return at_level(at, c, static_cast<unsigned>(at[2]));
      },
      coordinate);
  Fetch grad = fetch;
  grad.name = "tex.grad.2d.v4.f32.f32";
  // Steps of 2^level texels: level + 0, 1, 2, 3.
  grad.instruction =
      std::string(
          "ex2.approx.f32 %f20, %f10; mul.f32 %f20, %f20, 0f3E000000; mov.f32 %f21, 0f00000000;"
          "tex.grad.2d.v4.f32.f32 ") +
      kFloatResult + ", [%image, {%f8, %f9}], {%f20, %f21}, {%f21, %f20};";
  Add(
      grad, Kind::kFloat,
      [=](const std::vector<float>& at, unsigned c) {
        return at_level(at, c, static_cast<unsigned>(at[2]));
      },
      coordinate);
  Fetch between = fetch;
  between.sampler.linear_mipmap = true;
  between.name = "tex.level.2d.v4.f32.f32 between levels";
  between.tolerance = 0.5;
  Add(
      between, Kind::kFloat,
      [=](const std::vector<float>& at, unsigned c) {
        const auto below = static_cast<unsigned>(std::floor(at[2]));
        const double rest = at[2] - std::floor(at[2]);
        const double low = at_level(at, c, below);
        return rest == 0 ? low : low + rest * (at_level(at, c, below + 1) - low);
      },
      [=](unsigned t, unsigned i) {
        return i == 2 ? static_cast<float>(t % 7) * 0.5F : coordinate(t, i);
      });
}

void AddGathersAndQueries() {
  Fetch fetch;
  fetch.shape = {8, 8, 0, CUDA_ARRAY3D_TEXTURE_GATHER};
  fetch.results = 4;
  const auto coordinate = [](unsigned t, unsigned i) {
    return static_cast<float>((t * (i + 3) + i) % 9) + 0.25F;
  };
  for (unsigned component = 0; component < 4; ++component) {
    const std::string letter(1, "rgba"[component]);
    fetch.name = "tld4." + letter + ".2d.v4.f32.f32";
    fetch.instruction = fetch.name + " " + kFloatResult + ", [%image, {%f8, %f9}];";
    Add(
        fetch, Kind::kFloat,
        [=](const std::vector<float>& at, unsigned i) {
          static constexpr int kX[] = {0, 1, 1, 0}, kY[] = {1, 1, 0, 0};
          return TexelAt(fetch.shape, fetch.sampler,
                         {static_cast<int>(std::floor(at[0] - 0.5F)) + kX[i],
                          static_cast<int>(std::floor(at[1] - 0.5F)) + kY[i]},
                         0, component, 0);
        },
        coordinate);
  }
  struct Query {
    const char* name;
    Shape shape;
    U value;
  };
  const Query queries[] = {{"width", {8, 6}, 8},
                           {"height", {8, 6}, 6},
                           {"depth", {8, 6, 4}, 4},
                           {"array_size", {8, 6, 5, CUDA_ARRAY3D_LAYERED}, 5},
                           {"num_mipmap_levels", {8, 8, 0, 0, 3}, 3}};
  for (const Query& query : queries) {
    Fetch ask;
    ask.shape = query.shape;
    ask.sampler.normalised = query.shape.levels > 1;
    ask.results = 1;
    ask.name = std::string("txq.") + query.name + ".b32";
    ask.instruction = ask.name + " %r0, [%image];";
    const U value = query.value;
    Add(
        ask, Kind::kU32,
        [=](const std::vector<float>&, unsigned) { return static_cast<double>(value); },
        coordinate);
  }
}

// Linear memory as a texture.
void AddLinear() {
  Program program;
  program.group = "texture";
  program.name = "tex.1d.v4.f32.s32 of linear memory";
  program.kind = Kind::kFloat;
  program.image = [](Gpu& gpu) {
    std::vector<float> values(64);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) * 1.5F;
    const CUdeviceptr memory = gpu.Allocate(values.size() * 4);
    gpu.Upload(memory, values.data(), values.size() * 4);
    CUDA_RESOURCE_DESC resource = {};
    resource.resType = CU_RESOURCE_TYPE_LINEAR;
    resource.res.linear = {memory, CU_AD_FORMAT_FLOAT, 1, values.size() * 4};
    CUDA_TEXTURE_DESC texture = {};
    CUtexObject object = 0;
    gpu.Check(gpu.cuTexObjectCreate(&object, &resource, &texture, nullptr), "cuTexObjectCreate");
    return std::uint64_t{object};
  };
  program.body =
      "mul.lo.s32 %r0, %me, 3; sub.s32 %r0, %r0, 9; tex.1d.v4.f32.s32 {%f0, %f1, %f2, %f3}, "
      "[%image, {%r0}];"
      "st.global.f32 [%out], %f0;";
  for (int t = 0; t < 32; ++t) {
    const int index = 3 * t - 9;
    program.expected.push_back(index < 0 || index >= 64 ? 0
                                                        : AsBits(static_cast<float>(index) * 1.5F));
  }
  Programs().push_back(std::move(program));
}

void AddSurfaces() {
  const auto program = [](const std::string& name, const Shape& shape, CUarray_format format,
                          unsigned channels, const std::string& body, unsigned words,
                          auto expected) {
    Program p;
    p.group = "surface";
    p.name = name;
    p.image = Surface(shape, format, channels);
    p.body = body;
    p.words_out = words;
    for (U t = 0; t < 32; ++t)
      for (U i = 0; i < words; ++i) p.expected.push_back(expected(t, i));
    Programs().push_back(std::move(p));
  };
  const auto stored = [](U x, U y, U z, U c) {
    return static_cast<U>(static_cast<std::int32_t>(ValueAt(x, y, z, c, 0)) * 3 + 7);
  };
  const std::string place = "and.b32 %r0, %me, 7; shr.u32 %r1, %me, 3; ";  // 8 × 4
  program("suld.b.2d.b32.trap", {8, 4}, CU_AD_FORMAT_UNSIGNED_INT32, 1,
          place +
              "shl.b32 %r0, %r0, 2; suld.b.2d.b32.trap %r2, [%image, {%r0, %r1}]; st.global.u32 "
              "[%out], %r2;",
          1, [=](U t, U) { return stored(t & 7, t >> 3, 0, 0); });
  program(
      "suld.b.2d.v4.b32.trap", {8, 4}, CU_AD_FORMAT_UNSIGNED_INT32, 4,
      place +
          "shl.b32 %r0, %r0, 4; suld.b.2d.v4.b32.trap {%r2, %r3, %r4, %r5}, [%image, {%r0, %r1}];"
          "st.global.v4.u32 [%out], {%r2, %r3, %r4, %r5};",
      4, [=](U t, U i) { return stored(t & 7, t >> 3, 0, i); });
  program("suld.b.2d.v2.b16.trap", {8, 4}, CU_AD_FORMAT_UNSIGNED_INT16, 2,
          place +
              "shl.b32 %r0, %r0, 2; suld.b.2d.v2.b16.trap {%h0, %h1}, [%image, {%r0, %r1}]; "
              "mov.b32 %r2, {%h0, %h1};"
              "st.global.u32 [%out], %r2;",
          1, [=](U t, U) {
            return (stored(t & 7, t >> 3, 0, 0) & 0xffff) | stored(t & 7, t >> 3, 0, 1) << 16;
          });
  program("suld.b.1d.b8.trap", {32}, CU_AD_FORMAT_UNSIGNED_INT8, 1,
          "suld.b.1d.b8.trap %h0, [%image, {%me}]; cvt.u32.u16 %r2, %h0; and.b32 %r2, %r2, 255; "
          "st.global.u32 [%out], %r2;",
          1, [=](U t, U) { return stored(t, 0, 0, 0) & 0xff; });
  program("suld.b.3d.b64.trap", {8, 2, 2}, CU_AD_FORMAT_UNSIGNED_INT32, 2,
          "and.b32 %r0, %me, 7; shl.b32 %r0, %r0, 3; shr.u32 %r1, %me, 3; and.b32 %r1, %r1, 1; "
          "shr.u32 %r2, %me, 4;"
          "suld.b.3d.b64.trap %rd0, [%image, {%r0, %r1, %r2, %r2}]; st.global.u64 [%out], %rd0;",
          2, [=](U t, U i) { return stored(t & 7, t >> 3 & 1, t >> 4, i); });
  program("suld.b.a2d.b32.trap", {8, 2, 2, CUDA_ARRAY3D_LAYERED}, CU_AD_FORMAT_UNSIGNED_INT32, 1,
          "and.b32 %r0, %me, 7; shl.b32 %r0, %r0, 2; shr.u32 %r1, %me, 3; and.b32 %r1, %r1, 1; "
          "shr.u32 %r2, %me, 4;"
          "suld.b.a2d.b32.trap %r3, [%image, {%r2, %r0, %r1, %r1}]; st.global.u32 [%out], %r3;",
          1, [=](U t, U) { return stored(t & 7, t >> 3 & 1, t >> 4, 0); });
  program("suld.b.2d.b32.zero", {8, 4}, CU_AD_FORMAT_UNSIGNED_INT32, 1,
          place +
              "sub.s32 %r0, %r0, 2; shl.b32 %r0, %r0, 2; suld.b.2d.b32.zero %r2, [%image, {%r0, "
              "%r1}]; st.global.u32 [%out], %r2;",
          1, [=](U t, U) { return (t & 7) < 2 ? 0 : stored((t & 7) - 2, t >> 3, 0, 0); });
  program("suld.b.2d.b32.clamp", {8, 4}, CU_AD_FORMAT_UNSIGNED_INT32, 1,
          place +
              "sub.s32 %r1, %r1, 2; shl.b32 %r0, %r0, 2; suld.b.2d.b32.clamp %r2, [%image, {%r0, "
              "%r1}]; st.global.u32 [%out], %r2;",
          1, [=](U t, U) { return stored(t & 7, (t >> 3) < 2 ? 0 : (t >> 3) - 2, 0, 0); });
  program("sust.b.2d.v2.b32.trap", {8, 4}, CU_AD_FORMAT_UNSIGNED_INT32, 2,
          place +
              "shl.b32 %r0, %r0, 3; add.u32 %r2, %me, 100; add.u32 %r3, %me, 200; "
              "sust.b.2d.v2.b32.trap [%image, {%r0, %r1}], {%r2, %r3};"
              "suld.b.2d.v2.b32.trap {%r4, %r5}, [%image, {%r0, %r1}]; st.global.v2.u32 [%out], "
              "{%r4, %r5};",
          2, [=](U t, U i) { return t + 100 + 100 * i; });
  program("sust.b.1d.b16.zero", {16}, CU_AD_FORMAT_UNSIGNED_INT16, 1,
          "shl.b32 %r0, %me, 1; cvt.u16.u32 %h0, %me; sust.b.1d.b16.zero [%image, {%r0}], %h0; "
          "suld.b.1d.b16.zero %h1, [%image, {%r0}];"
          "cvt.u32.u16 %r1, %h1; st.global.u32 [%out], %r1;",
          1, [=](U t, U) { return t < 16 ? t : 0; });
  program("sust.b.3d.b32.trap", {8, 2, 2}, CU_AD_FORMAT_FLOAT, 1,
          "and.b32 %r0, %me, 7; shl.b32 %r0, %r0, 2; shr.u32 %r1, %me, 3; and.b32 %r1, %r1, 1; "
          "shr.u32 %r2, %me, 4;"
          "sust.b.3d.b32.trap [%image, {%r0, %r1, %r2, %r2}], %me; suld.b.3d.b32.trap %r3, "
          "[%image, {%r0, %r1, %r2, %r2}];"
          "st.global.u32 [%out], %r3;",
          1, [=](U t, U) { return t; });
  program("suq.width.b32 and height", {24, 5}, CU_AD_FORMAT_UNSIGNED_INT32, 1,
          "suq.width.b32 %r0, [%image]; suq.height.b32 %r1, [%image]; st.global.v2.u32 [%out], "
          "{%r0, %r1};",
          2, [=](U, U i) { return i == 0 ? 24U : 5U; });
  program("sured.b.add.2d.u32.trap", {8, 4}, CU_AD_FORMAT_UNSIGNED_INT32, 1,
          place +
              "shl.b32 %r0, %r0, 2; sured.b.add.2d.u32.trap [%image, {%r0, %r1}], %me;"
              "suld.b.2d.b32.trap %r2, [%image, {%r0, %r1}]; st.global.u32 [%out], %r2;",
          1, [=](U t, U) { return stored(t & 7, t >> 3, 0, 0) + t; });
}

}  // namespace

void AddTexturePrograms() {
  AddModes();
  AddOthers();
  AddLevels();
  AddGathersAndQueries();
  AddLinear();
  AddSurfaces();
}

}  // namespace cuspan::ptx_forms

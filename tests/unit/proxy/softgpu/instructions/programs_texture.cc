// Textures. (CUDA C++ Programming Guide, "Texture Fetching"; PTX ISA, "Texture Instructions")
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "tests/unit/proxy/softgpu/instructions/images.h"
#include "tests/unit/proxy/softgpu/instructions/numbers.h"

namespace cuspan::ptx_forms {
namespace {

using U = std::uint32_t;

U AsBits(float x) { return std::bit_cast<U>(x); }

struct Sampler {
  CUaddress_mode mode = CU_TR_ADDRESS_MODE_CLAMP;
  bool linear = false;
  bool normalised = false;
  bool integers = false;  // Read as integers.
  bool srgb = false;
  bool linear_mipmap = false;
  bool others_clamp = false;  // The second and third coordinate are clamped in any mode.
};

std::function<std::uint64_t(Gpu&)> Texture(Shape shape, CUarray_format format, unsigned channels,
                                           Sampler sampler) {
  return [=](Gpu& gpu) {
    const CUDA_RESOURCE_DESC resource = MakeResource(gpu, shape, format, channels);
    CUDA_TEXTURE_DESC texture = {};
    for (auto& mode : texture.addressMode) mode = sampler.mode;
    if (sampler.others_clamp)
      texture.addressMode[1] = texture.addressMode[2] = CU_TR_ADDRESS_MODE_CLAMP;
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

struct TexelPlace {
  std::vector<float> at;  // Texel coordinate in each dimension.
  int slice = 0;          // Layer number.
};

// Channel of the border colour; others are 0.
double BorderOf(unsigned channel) { return channel == 0 ? 5 : channel == 1 ? 6 : 0; }

double TexelAt(const Shape& shape, const Sampler& sampler, const std::vector<int>& index, int slice,
               unsigned channel, unsigned level) {
  const int sizes[3] = {static_cast<int>(std::max(shape.width >> level, 1U)),
                        static_cast<int>(std::max(shape.height >> level, 1U)),
                        static_cast<int>(std::max(shape.depth, 1U))};
  int at[3] = {0, 0, slice};
  for (std::size_t i = 0; i < index.size(); ++i) {
    at[i] = Address(sampler.mode, index[i], sizes[i]);
    if (at[i] < 0) return BorderOf(channel);
  }
  return ValueAt(static_cast<unsigned>(at[0]), static_cast<unsigned>(at[1]),
                 static_cast<unsigned>(at[2]), channel, level);
}

double Sample(const Shape& shape, const Sampler& sampler, const TexelPlace& place, unsigned channel,
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
  // Hardware treats a line as the only row of a plane. The sample is on the edge of this row. Thus
  // half of the filtered value is from outside the row. Layers of lines do not have this effect.
  const bool beyond = place.at.size() == 1 && shape.flags == 0 &&
                      sampler.mode == CU_TR_ADDRESS_MODE_BORDER && !sampler.others_clamp;
  return beyond ? (sum + BorderOf(channel)) / 2 : sum;
}

// --- Programs

constexpr unsigned kThreads = 32;

// CUDA states no precision for conversions of sRGB codes. An H200 has a table of 256 numbers with
// at most nine digits, up to 0.00375 off.
constexpr double kSrgbTolerance = 1.0 / 256;

struct Fetch {
  std::string name;
  std::string instruction;  // Its result is {%f0, %f1, %f2, %f3} or {%r0 … %r3}.
  Shape shape;
  CUarray_format format = CU_AD_FORMAT_FLOAT;
  unsigned channels = 4;
  Sampler sampler;
  unsigned coordinates = 2;  // Number in %f8 … (floats) and in %r8 … (converted).
  double tolerance = 0;
  unsigned results = 2;
};

// `expected(coordinates, channel)` is the reference.
template <typename Expected>
void AddFetchProgram(const Fetch& fetch, Kind kind, Expected expected,
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

// Coordinates on and beyond both edges. They are multiples of 1/16, so rounding does not matter.
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
          AddFetchProgram(
              fetch, Kind::kFloat,
              [=](const std::vector<float>& at, unsigned c) {
                TexelPlace place;
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

// Lines with clamped other coordinates, and layers of lines.
void AddBordersOfLines() {
  for (const bool layers : {false, true}) {
    for (const bool others_clamp : {false, true}) {
      if (!layers && !others_clamp) continue;  // Tested above.
      Fetch fetch;
      fetch.sampler = {
          .mode = CU_TR_ADDRESS_MODE_BORDER, .linear = true, .others_clamp = others_clamp};
      fetch.shape = {8};
      if (layers) fetch.shape = {8, 0, 4, CUDA_ARRAY3D_LAYERED};
      const std::string instruction = layers ? "tex.a1d.v4.f32.f32" : "tex.1d.v4.f32.f32";
      fetch.coordinates = 1;
      fetch.name = instruction + " border linear" + (others_clamp ? " of the first only" : "");
      fetch.instruction = "and.b32 %r20, %me, 3; " + instruction + " " + kFloatResult +
                          ", [%image, " + (layers ? "{%r20, %f8}];" : "{%f8}];");
      fetch.tolerance = 0.01;
      unsigned thread = 0;
      const Sampler sampler = fetch.sampler;
      const Shape shape = fetch.shape;
      AddFetchProgram(
          fetch, Kind::kFloat,
          [=, &thread](const std::vector<float>& at, unsigned c) {
            const int layer = layers ? static_cast<int>(thread++ / 2 % 4) : 0;
            return Sample(shape, sampler, {{at[0]}, layer}, c);
          },
          Spread);
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
  AddFetchProgram(
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
    AddFetchProgram(
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
    AddFetchProgram(
        normalised, Kind::kFloat,
        [=](const std::vector<float>& at, unsigned c) {
          return std::max(static_cast<double>(stored(at, c)) / scale, -1.0);
        },
        inside);
    if (format != CU_AD_FORMAT_UNSIGNED_INT8) continue;
    Fetch srgb = normalised;
    srgb.name = "tex.2d.v4.f32.f32 of sRGB";
    srgb.sampler.srgb = true;
    srgb.tolerance = kSrgbTolerance;
    AddFetchProgram(
        srgb, Kind::kFloat,
        [=](const std::vector<float>& at, unsigned c) {
          const double v = static_cast<double>(stored(at, c)) / 255;
          return v <= 0.04045 ? v / 12.92 : std::pow((v + 0.055) / 1.055, 2.4);
        },
        inside);
  }
  // All 8-bit codes; the alpha channel is linear.
  Program codes;
  codes.group = "texture";
  codes.name = "tex.1d.v4.f32.f32 of all sRGB codes";
  codes.kind = Kind::kFloat;
  codes.tolerance.absolute = kSrgbTolerance;
  codes.threads = 256;
  codes.words_out = 4;
  codes.image = Texture({256}, CU_AD_FORMAT_UNSIGNED_INT8, 4, {.srgb = true});
  codes.body = std::string(
                   "cvt.rn.f32.u32 %f8, %me; add.f32 %f8, %f8, 0f3F000000; "
                   "tex.1d.v4.f32.f32 ") +
               kFloatResult + ", [%image, {%f8}]; st.global.v4.f32 [%out], " + kFloatResult + ";";
  for (unsigned t = 0; t < 256; ++t) {
    const double v = (3 * t + 7) % 256 / 255.0;
    const double decoded = v <= 0.04045 ? v / 12.92 : std::pow((v + 0.055) / 1.055, 2.4);
    for (unsigned c = 0; c < 4; ++c)
      codes.expected.push_back(AsBits(static_cast<float>(c == 3 ? v : decoded)));
  }
  Programs().push_back(std::move(codes));
  Fetch halves = fetch;
  halves.format = CU_AD_FORMAT_HALF;
  halves.name = "tex.2d.v4.f32.f32 of f16";
  halves.instruction = std::string("tex.2d.v4.f32.f32 ") + kFloatResult + ", [%image, {%f8, %f9}];";
  AddFetchProgram(
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
  AddFetchProgram(
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
  AddFetchProgram(
      lines, Kind::kFloat,
      [=](const std::vector<float>& at, unsigned c) {
        return ValueAt(static_cast<unsigned>(at[0]), 0,
                       static_cast<unsigned>(std::min(at[2], 3.0F)), c, 0);
      },
      layered);
  // Cubes: the middle of each face, and locations towards its corners.
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
  AddFetchProgram(
      cube, Kind::kFloat,
      [=](const std::vector<float>& at, unsigned c) { return on_face(at, c, 0); }, direction);
  Fetch cubes = cube;
  cubes.shape = {8, 8, 12, CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_LAYERED};
  cubes.name = "tex.acube.v4.f32.f32";
  cubes.instruction = std::string("and.b32 %r20, %me, 1; tex.acube.v4.f32.f32 ") + kFloatResult +
                      ", [%image, {%r20, %f8, %f9, %f10}];";
  unsigned thread = 0;
  AddFetchProgram(
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
  AddFetchProgram(
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
  AddFetchProgram(
      grad, Kind::kFloat,
      [=](const std::vector<float>& at, unsigned c) {
        return at_level(at, c, static_cast<unsigned>(at[2]));
      },
      coordinate);
  Fetch between = fetch;
  between.sampler.linear_mipmap = true;
  between.name = "tex.level.2d.v4.f32.f32 between levels";
  between.tolerance = 0.5;
  AddFetchProgram(
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
    AddFetchProgram(
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
    // NVIDIA's driver fails to load these two with CUDA_ERROR_NOT_FOUND.
    const bool may_be_refused =
        query.name == std::string("array_size") || query.name == std::string("num_mipmap_levels");
    AddFetchProgram(
        ask, Kind::kU32,
        [=](const std::vector<float>&, unsigned) { return static_cast<double>(value); },
        coordinate);
    Programs().back().may_be_refused = may_be_refused;
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

}  // namespace

void AddTexturePrograms() {
  AddModes();
  AddBordersOfLines();
  AddOthers();
  AddLevels();
  AddGathersAndQueries();
  AddLinear();
}

}  // namespace cuspan::ptx_forms

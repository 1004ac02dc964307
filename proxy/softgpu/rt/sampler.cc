// Sampling of textures. (CUDA C++ Programming Guide, "Texture Fetching";
// PTX ISA, "tex", "tld4", "txq")
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "proxy/softgpu/rt/image.h"

namespace cuspan::softgpu {
namespace {

using Texel = std::array<std::uint32_t, 4>;  // Integers, or the bits of floats.

float AsFloat(std::uint32_t bits) { return std::bit_cast<float>(bits); }
std::uint32_t AsBits(float value) { return std::bit_cast<std::uint32_t>(value); }

// Filter weights have 8 fractional bits.
float QuantisedFraction(float value) { return std::floor(value * 256.0F + 0.5F) / 256.0F; }

// Limit of coordinates: far outside any image.
constexpr float kFarthest = 0x1p30F;

float Limited(float coordinate) {
  if (std::isnan(coordinate)) return 0;
  return std::clamp(coordinate, -kFarthest, kFarthest);
}

// Decoding of IEC 61966-2-1.
float FromSrgb(float value) {
  return value <= 0.04045F ? value / 12.92F : std::pow((value + 0.055F) / 1.055F, 2.4F);
}

// Returns a texel as seen by fetches: floats if the texture is read as floats.
Texel Convert(const ImageObject& texture, const std::uint8_t* at) {
  Texel texel;
  LoadTexel(texture.format, at, texel.data());
  if (!texture.read_as_float || texture.format.is_float()) return texel;
  float scale = 1;
  switch (texture.format.channel) {
    case Channel::kU8:
      scale = 255;
      break;
    case Channel::kS8:
      scale = 127;
      break;
    case Channel::kU16:
      scale = 65535;
      break;
    default:
      scale = 32767;
  }
  for (unsigned c = 0; c < 4; ++c) {
    if (c >= texture.format.channels) {
      texel[c] = AsBits(c == 3 ? 1.0F : 0.0F);
      continue;
    }
    float value =
        texture.format.is_signed()
            ? std::max(static_cast<float>(static_cast<std::int32_t>(texel[c])) / scale, -1.0F)
            : static_cast<float>(texel[c]) / scale;
    if (texture.srgb && c < 3) value = FromSrgb(value);
    texel[c] = AsBits(value);
  }
  return texel;
}

Texel BorderTexel(const ImageObject& texture) {
  Texel texel;
  for (unsigned c = 0; c < 4; ++c) {
    const float value = texture.border[c];
    texel[c] = texture.read_as_float ? AsBits(value)
               : texture.format.is_signed()
                   ? static_cast<std::uint32_t>(static_cast<std::int32_t>(value))
                   : static_cast<std::uint32_t>(std::max(value, 0.0F));
  }
  return texel;
}

// Applies the addressing mode to `index`; -1: border.
std::int64_t Address(Addressing mode, std::int64_t index, std::int64_t size) {
  switch (mode) {
    case Addressing::kClamp:
      return std::clamp<std::int64_t>(index, 0, size - 1);
    case Addressing::kWrap: {
      const std::int64_t rest = index % size;
      return rest < 0 ? rest + size : rest;
    }
    case Addressing::kMirror: {
      std::int64_t rest = index % (2 * size);
      if (rest < 0) rest += 2 * size;
      return rest < size ? rest : 2 * size - 1 - rest;
    }
    case Addressing::kBorder:
      return index >= 0 && index < size ? index : -1;
  }
  return 0;
}

// Location of a fetch: coordinates in texels, and the slice selected by layer and face.
struct Location {
  unsigned dimensions = 1;
  std::array<float, 3> at = {};
  std::uint32_t slice = 0;
  bool by_slice = false;  // True if the third dimension is no coordinate.
};

class Level {
 public:
  Level(const ImageObject& texture, const Image& image, const Location& location)
      : texture_(texture), image_(image), location_(location) {}

  Texel At(std::int64_t x, std::int64_t y, std::int64_t z) const {
    const std::int64_t places[3] = {
        Address(Mode(0), x, image_.width),
        location_.dimensions > 1 ? Address(Mode(1), y, image_.height) : 0,
        location_.dimensions > 2 ? Address(Mode(2), z, image_.depth) : 0};
    if (places[0] < 0 || places[1] < 0 || places[2] < 0) return BorderTexel(texture_);
    const auto slice = location_.by_slice ? location_.slice : static_cast<std::uint32_t>(places[2]);
    return Convert(
        texture_, image_.At(static_cast<std::uint32_t>(places[0]),
                            static_cast<std::uint32_t>(places[1]), slice, texture_.format.bytes()));
  }

 private:
  // Faces of a cube are clamped at their edges.
  Addressing Mode(unsigned dimension) const {
    const bool cube =
        texture_.shape == ImageShape::kCube || texture_.shape == ImageShape::kCubeLayered;
    return cube ? Addressing::kClamp : texture_.addressing[dimension];
  }

  const ImageObject& texture_;
  const Image& image_;
  const Location& location_;
};

std::uint32_t SizeOf(const Image& image, unsigned dimension) {
  return dimension == 0 ? image.width : dimension == 1 ? image.height : image.depth;
}

// First texel of a filter, and the fraction of the distance to the next one.
struct Footprint {
  std::array<std::int64_t, 3> first = {};
  std::array<float, 3> fraction = {};
};

Footprint FootprintOf(const Location& location, const std::array<std::int32_t, 3>& offset,
                      bool filtered) {
  Footprint footprint;
  for (unsigned i = 0; i < location.dimensions; ++i) {
    float place = Limited(location.at[i]);
    if (filtered) {
      place -= 0.5F;
      const float below = std::floor(place);
      float fraction = QuantisedFraction(place - below);
      auto first = static_cast<std::int64_t>(below);
      if (fraction == 1) {
        ++first;
        fraction = 0;
      }
      footprint.first[i] = first;
      footprint.fraction[i] = fraction;
    } else {
      footprint.first[i] = static_cast<std::int64_t>(std::floor(place));
    }
    footprint.first[i] += offset[i];
  }
  return footprint;
}

Texel Filter(const Level& level, const Location& location, const Footprint& f) {
  std::array<float, 4> sum = {};
  for (unsigned corner = 0; corner < 1U << location.dimensions; ++corner) {
    float weight = 1;
    std::int64_t place[3] = {};
    for (unsigned i = 0; i < location.dimensions; ++i) {
      const bool next = (corner >> i & 1) != 0;
      place[i] = f.first[i] + (next ? 1 : 0);
      weight *= next ? f.fraction[i] : 1 - f.fraction[i];
    }
    if (weight == 0) continue;  // An infinity there must not become a NaN.
    const Texel texel = level.At(place[0], place[1], place[2]);
    for (unsigned c = 0; c < 4; ++c) sum[c] += weight * AsFloat(texel[c]);
  }
  return {AsBits(sum[0]), AsBits(sum[1]), AsBits(sum[2]), AsBits(sum[3])};
}

// Face of a cube hit by a direction, and the position on it in [0, 1]. (PTX ISA, "tex"; table of
// faces from OpenGL 4.6, 8.13)
struct CubePlace {
  std::uint32_t face;
  float s, t;
};

CubePlace OnCube(float x, float y, float z) {
  const float ax = std::fabs(x), ay = std::fabs(y), az = std::fabs(z);
  float major = az, s = 0, t = 0;
  std::uint32_t face = 0;
  if (ax >= ay && ax >= az) {
    major = ax;
    face = x < 0 ? 1 : 0;
    s = x < 0 ? z : -z;
    t = -y;
  } else if (ay >= az) {
    major = ay;
    face = y < 0 ? 3 : 2;
    s = x;
    t = y < 0 ? -z : z;
  } else {
    face = z < 0 ? 5 : 4;
    s = z < 0 ? -x : x;
    t = -y;
  }
  if (!(major > 0)) return {0, 0.5F, 0.5F};
  return {face, (s / major + 1) / 2, (t / major + 1) / 2};
}

bool IsCube(ImageGeometry geometry) {
  return geometry == ImageGeometry::kCube || geometry == ImageGeometry::kCubeArray;
}

// Converts the coordinates to a location on the level of `image`.
Location Locate(const ImageObject& texture, const Image& image, const ImageOperation& operation,
                const ImageWords& words) {
  Location location;
  unsigned word = kImageCoordinateWord;
  std::uint32_t layer = 0;
  const bool layered = operation.geometry == ImageGeometry::k1DArray ||
                       operation.geometry == ImageGeometry::k2DArray ||
                       operation.geometry == ImageGeometry::kCubeArray;
  if (layered) layer = words[word++];
  const auto coordinate = [&](unsigned i) {
    return operation.float_coordinates
               ? AsFloat(words[word + i])
               : static_cast<float>(static_cast<std::int32_t>(words[word + i]));
  };
  if (IsCube(operation.geometry)) {
    const CubePlace place = OnCube(coordinate(0), coordinate(1), coordinate(2));
    location.dimensions = 2;
    location.at = {place.s * static_cast<float>(image.width),
                   place.t * static_cast<float>(image.height), 0};
    location.by_slice = true;
    const std::uint32_t cubes = std::max(image.depth / 6, 1U);
    location.slice = std::min(std::min(layer, cubes - 1) * 6 + place.face, image.depth - 1);
    return location;
  }
  location.dimensions =
      operation.geometry == ImageGeometry::k1D || operation.geometry == ImageGeometry::k1DArray ? 1
      : operation.geometry == ImageGeometry::k3D                                                ? 3
                                                                                                : 2;
  if (layered || texture.shape == ImageShape::k1DLayered ||
      texture.shape == ImageShape::k2DLayered) {
    location.by_slice = true;
    location.slice = std::min(layer, image.depth - 1);
  }
  for (unsigned i = 0; i < location.dimensions; ++i) {
    location.at[i] = coordinate(i);
    if (texture.normalised_coordinates && operation.float_coordinates)
      location.at[i] = Limited(location.at[i]) * static_cast<float>(SizeOf(image, i));
  }
  return location;
}

std::array<std::int32_t, 3> OffsetOf(const ImageOperation& operation, const ImageWords& words) {
  std::array<std::int32_t, 3> offset = {};
  if (!operation.has_offset) return offset;
  for (unsigned i = 0; i < 3; ++i)
    offset[i] = static_cast<std::int32_t>(words[kImageOffsetWord + i]);
  return offset;
}

// Reproduces an H200's filter on a line (1D) with border addressing in the missing second
// dimension. The line is the only row of a plane, and the location is on this row's edge. Half of
// the weight is therefore border.
void MixWithBorder(const ImageObject& texture, Texel& texel) {
  const Texel border = BorderTexel(texture);
  for (unsigned c = 0; c < 4; ++c) texel[c] = AsBits((AsFloat(texel[c]) + AsFloat(border[c])) / 2);
}

Texel SampleLevel(const ImageObject& texture, std::size_t index, const ImageOperation& operation,
                  const ImageWords& words) {
  const Image& image = texture.levels[index];
  const Location location = Locate(texture, image, operation, words);
  const Level level(texture, image, location);
  const bool filtered = texture.linear_filter && operation.float_coordinates;
  const Footprint f = FootprintOf(location, OffsetOf(operation, words), filtered);
  if (filtered) {
    Texel texel = Filter(level, location, f);
    if (location.dimensions == 1 && !location.by_slice &&
        texture.addressing[1] == Addressing::kBorder)
      MixWithBorder(texture, texel);
    return texel;
  }
  return level.At(f.first[0], f.first[1], f.first[2]);
}

// Returns the level of detail requested by the instruction.
float LevelOf(const ImageObject& texture, const ImageOperation& operation,
              const ImageWords& words) {
  float level = 0;
  if (operation.level == ImageLevel::kExplicit) {
    level = AsFloat(words[kImageLevelWord]);
  } else if (operation.level == ImageLevel::kGradient) {
    const Image& image = texture.levels[0];
    float longest = 0;
    for (unsigned direction = 0; direction < 2; ++direction) {
      float length = 0;
      const unsigned dimensions =
          operation.geometry == ImageGeometry::k1D || operation.geometry == ImageGeometry::k1DArray
              ? 1
          : operation.geometry == ImageGeometry::k2D ||
                  operation.geometry == ImageGeometry::k2DArray
              ? 2
              : 3;
      for (unsigned i = 0; i < dimensions; ++i) {
        const float size = IsCube(operation.geometry) ? static_cast<float>(image.width) / 2
                                                      : static_cast<float>(SizeOf(image, i));
        const float scale = texture.normalised_coordinates ? size : 1;
        const float step = AsFloat(words[kImageLevelWord + 3 * direction + i]) * scale;
        length += step * step;
      }
      longest = std::max(longest, std::sqrt(length));
    }
    level = longest > 0 ? std::log2(longest) : 0;
  }
  if (std::isnan(level)) level = 0;
  level += texture.level_bias;
  level = std::min(std::max(level, texture.lowest_level), texture.highest_level);
  return std::clamp(level, 0.0F, static_cast<float>(texture.levels.size() - 1));
}

void Give(const Texel& texel, ImageWords& words) {
  for (unsigned c = 0; c < 4; ++c) words[c] = texel[c];
}

}  // namespace

void SampleTexture(const ImageObject& texture, const ImageOperation& operation, ImageWords words) {
  if (texture.shape == ImageShape::kLinear) {
    // Linear memory: only the index counts; zero outside.
    const auto index =
        operation.float_coordinates
            ? static_cast<std::int64_t>(std::floor(Limited(AsFloat(words[kImageCoordinateWord]))))
            : static_cast<std::int32_t>(words[kImageCoordinateWord]);
    const Image& image = texture.levels[0];
    if (index < 0 || index >= image.width) {
      Give({0, 0, 0, 0}, words);
      return;
    }
    Give(
        Convert(texture, image.At(static_cast<std::uint32_t>(index), 0, 0, texture.format.bytes())),
        words);
    return;
  }
  const float level = LevelOf(texture, operation, words);
  if (!texture.linear_mipmap || !texture.read_as_float) {
    Give(SampleLevel(texture, static_cast<std::size_t>(std::floor(level + 0.5F)), operation, words),
         words);
    return;
  }
  const float below = std::floor(level);
  const float fraction = QuantisedFraction(level - below);
  const auto index = static_cast<std::size_t>(below);
  Texel texel = SampleLevel(texture, index, operation, words);
  if (fraction != 0 && index + 1 < texture.levels.size()) {
    const Texel next = SampleLevel(texture, index + 1, operation, words);
    for (unsigned c = 0; c < 4; ++c)
      texel[c] = AsBits((1 - fraction) * AsFloat(texel[c]) + fraction * AsFloat(next[c]));
  }
  Give(texel, words);
}

// Gathers the four texels of a bilinear filter, counter-clockwise from the lower left.
void GatherTexels(const ImageObject& texture, const ImageOperation& operation, ImageWords words) {
  const Image& image = texture.levels[0];
  const Location location = Locate(texture, image, operation, words);
  const Level level(texture, image, location);
  const Footprint f = FootprintOf(location, OffsetOf(operation, words), true);
  static constexpr int kSteps[4][2] = {{0, 1}, {1, 1}, {1, 0}, {0, 0}};
  Texel result;
  for (unsigned i = 0; i < 4; ++i)
    result[i] = level.At(f.first[0] + kSteps[i][0], f.first[1] + kSteps[i][1],
                         f.first[2])[operation.component];
  Give(result, words);
}

// Data types and orders have OpenCL's numbers, as specified by PTX.
void QueryImage(const ImageObject& object, const ImageOperation& operation, ImageWords words) {
  const std::size_t level =
      operation.at_level ? std::min<std::size_t>(words[kImageLevelWord], object.levels.size() - 1)
                         : 0;
  const Image& image = object.levels[level];
  const bool layered = object.shape == ImageShape::k1DLayered ||
                       object.shape == ImageShape::k2DLayered ||
                       object.shape == ImageShape::kCubeLayered;
  const bool flat = object.shape == ImageShape::k1D || object.shape == ImageShape::kLinear ||
                    object.shape == ImageShape::k1DLayered;
  std::uint32_t result = 0;
  switch (operation.query) {
    case ImageQuery::kWidth:
      result = image.width;
      break;
    case ImageQuery::kHeight:
      result = flat ? 0 : image.height;
      break;
    case ImageQuery::kDepth:
      result = object.shape == ImageShape::k3D ? image.depth : 0;
      break;
    case ImageQuery::kLayers:
      result = !layered                                   ? 0
               : object.shape == ImageShape::kCubeLayered ? image.depth / 6
                                                          : image.depth;
      break;
    case ImageQuery::kLevels:
      result = static_cast<std::uint32_t>(object.levels.size());
      break;
    case ImageQuery::kSamples:
      result = 1;
      break;
    case ImageQuery::kNormalised:
      result = object.normalised_coordinates ? 1 : 0;
      break;
    case ImageQuery::kOrder:  // CL_R, CL_RG, CL_RGBA
      result = object.format.channels == 1 ? 0x10B0 : object.format.channels == 2 ? 0x10B2 : 0x10B5;
      break;
    case ImageQuery::kDataType: {
      // CL_SIGNED_INT8 …; normalised: CL_SNORM_INT8 …
      static constexpr std::uint32_t kPlain[] = {0x10DA, 0x10DB, 0x10DC, 0x10D7,
                                                 0x10D8, 0x10D9, 0x10DD, 0x10DE};
      static constexpr std::uint32_t kNormalised[] = {0x10D2, 0x10D3, 0, 0x10D0, 0x10D1, 0, 0, 0};
      const auto index = static_cast<unsigned>(object.format.channel);
      const bool integer = !object.format.is_float();
      const bool normalised =
          object.format.normalised || (integer && object.read_as_float && kNormalised[index] != 0);
      result = normalised ? kNormalised[index] : kPlain[index];
      break;
    }
  }
  words[0] = result;
}

ImageFault ExecuteImage(std::uint64_t packed, std::uint32_t mask, std::uint32_t* words,
                        std::uint32_t lanes) {
  const ImageOperation operation = ImageOperation::Unpack(packed);
  const ImageTable& table = ImageTable::Get();
  for (; mask != 0; mask &= mask - 1) {
    ImageWords lane(words + std::countr_zero(mask), lanes);
    const std::uint64_t handle = lane[kImageHandleWord] | std::uint64_t{lane[kImageHandleWord + 1]}
                                                              << 32;
    const ImageObject* const object = table.Find(handle);
    const bool wants_surface = operation.kind >= ImageKind::kSurfaceLoad ||
                               (operation.kind == ImageKind::kQuery && operation.of_surface);
    if (object == nullptr || object->is_surface != wants_surface) {
      return {CUDA_ERROR_ILLEGAL_ADDRESS, wants_surface
                                              ? "a surface access through an invalid handle"
                                              : "a texture fetch through an invalid handle"};
    }
    switch (operation.kind) {
      case ImageKind::kTexture:
        SampleTexture(*object, operation, lane);
        break;
      case ImageKind::kGather:
        GatherTexels(*object, operation, lane);
        break;
      case ImageKind::kQuery:
        QueryImage(*object, operation, lane);
        break;
      default:
        if (const ImageFault fault = AccessSurface(*object, operation, lane);
            fault.error != CUDA_SUCCESS)
          return fault;
    }
  }
  return {};
}

}  // namespace cuspan::softgpu

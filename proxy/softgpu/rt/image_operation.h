// Texture and surface instructions passed by the emitter to the runtime: an operation packed into
// 64 bits, and words in memory.
#pragma once

#include <cstdint>
#include <type_traits>

namespace cuspan::softgpu {

enum class ImageKind : std::uint8_t {
  kTexture,                // tex: a filtered fetch.
  kGather,                 // tld4: one component of the four texels of a filter.
  kQuery,                  // txq, suq
  kSurfaceLoad,            // suld.b
  kSurfaceStore,           // sust.b
  kSurfaceStoreFormatted,  // sust.p
  kSurfaceReduce,          // sured
};

enum class ImageGeometry : std::uint8_t { k1D, k2D, k3D, k1DArray, k2DArray, kCube, kCubeArray };

enum class ImageLevel : std::uint8_t { kBase, kExplicit, kGradient };

enum class ImageQuery : std::uint8_t {
  kWidth,
  kHeight,
  kDepth,
  kDataType,
  kOrder,
  kNormalised,
  kLayers,
  kLevels,
  kSamples
};

// Effect of a surface access beyond the edge.
enum class SurfaceEdge : std::uint8_t { kTrap, kClamp, kZero };

enum class SurfaceReduction : std::uint8_t {
  kAdd,
  kMinSigned,
  kMaxSigned,
  kMinUnsigned,
  kMaxUnsigned,
  kAnd,
  kOr
};

struct ImageOperation {
  ImageKind kind = ImageKind::kTexture;
  ImageGeometry geometry = ImageGeometry::k2D;
  bool float_coordinates = true;
  ImageLevel level = ImageLevel::kBase;
  bool has_offset = false;
  std::uint8_t component = 0;  // kGather only.
  ImageQuery query = ImageQuery::kWidth;
  bool of_surface = false;  // kQuery only.
  bool at_level = false;    // kQuery: of the level in word kImageLevelWord.
  SurfaceEdge edge = SurfaceEdge::kTrap;
  std::uint8_t element_bytes = 4;  // Surface kinds: 1, 2, 4 or 8.
  std::uint8_t elements = 1;       // Surface kinds: 1, 2 or 4.
  // kSurfaceStoreFormatted: signed integers. kSurfaceReduce: x in texels (.p), not bytes.
  bool is_signed = false;
  bool is_float = false;  // kSurfaceStoreFormatted: floats.
  SurfaceReduction reduction = SurfaceReduction::kAdd;

  std::uint64_t Pack() const {
    std::uint64_t packed = 0;
    Visit(*this, [&](auto& field, unsigned bits, unsigned shift) {
      packed |= (static_cast<std::uint64_t>(field) & ((1U << bits) - 1)) << shift;
    });
    return packed;
  }
  static ImageOperation Unpack(std::uint64_t packed) {
    ImageOperation operation;
    Visit(operation, [&](auto& field, unsigned bits, unsigned shift) {
      field = static_cast<std::remove_reference_t<decltype(field)>>(packed >> shift &
                                                                    ((1U << bits) - 1));
    });
    return operation;
  }

 private:
  template <typename Operation, typename Do>
  static void Visit(Operation& o, Do apply) {
    unsigned shift = 0;
    const auto field = [&](auto& value, unsigned bits) {
      apply(value, bits, shift);
      shift += bits;
    };
    field(o.kind, 3);
    field(o.geometry, 3);
    field(o.float_coordinates, 1);
    field(o.level, 2);
    field(o.has_offset, 1);
    field(o.component, 2);
    field(o.query, 4);
    field(o.of_surface, 1);
    field(o.at_level, 1);
    field(o.edge, 2);
    field(o.element_bytes, 4);
    field(o.elements, 3);
    field(o.is_signed, 1);
    field(o.is_float, 1);
    field(o.reduction, 3);
  }
};

// Words of a lane on entry. On return the results are in words 0 … 3 (0 … 7 for elements of 8
// bytes, two words each).
inline constexpr unsigned kImageHandleWord = 0;      // Two words.
inline constexpr unsigned kImageCoordinateWord = 2;  // Up to four; a layer comes first.
inline constexpr unsigned kImageLevelWord = 6;       // The level, or both gradients, three each.
inline constexpr unsigned kImageOffsetWord = 12;     // Three, in texels.
inline constexpr unsigned kImageDataWord = 6;        // Surfaces: up to eight.
inline constexpr unsigned kImageWords = 15;

}  // namespace cuspan::softgpu

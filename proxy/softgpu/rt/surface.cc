// Reading and writing surfaces. (PTX ISA, "suld", "sust", "sured")
#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "proxy/softgpu/rt/image.h"

namespace cuspan::softgpu {
namespace {

// Address of an access; null if it is outside and must be ignored.
struct Target {
  std::uint8_t* bytes = nullptr;
  ImageFault fault;
};

// `unit`: bytes per step of the first coordinate. `size`: bytes accessed.
Target Find(const ImageObject& surface, const ImageOperation& operation, const ImageWords& words,
            std::uint32_t unit, std::uint32_t size) {
  const Image& image = surface.levels[0];
  unsigned word = kImageCoordinateWord;
  std::int64_t layer = 0;
  const bool layered = operation.geometry == ImageGeometry::k1DArray ||
                       operation.geometry == ImageGeometry::k2DArray;
  if (layered) layer = static_cast<std::int32_t>(words[word++]);
  const auto coordinate = [&](unsigned i) {
    return std::int64_t{static_cast<std::int32_t>(words[word + i])};
  };
  const bool flat =
      operation.geometry == ImageGeometry::k1D || operation.geometry == ImageGeometry::k1DArray;
  std::int64_t x = coordinate(0) * unit;
  std::int64_t y = flat ? 0 : coordinate(1);
  std::int64_t z = operation.geometry == ImageGeometry::k3D ? coordinate(2) : layer;
  const std::int64_t row = std::int64_t{image.width} * surface.format.bytes();
  const bool inside =
      x >= 0 && x + size <= row && y >= 0 && y < image.height && z >= 0 && z < image.depth;
  if (!inside) {
    if (operation.edge == SurfaceEdge::kZero) return {};
    if (operation.edge == SurfaceEdge::kTrap || row < size)
      return {nullptr, {CUDA_ERROR_LAUNCH_FAILED, "a surface access outside the surface"}};
    x = std::clamp<std::int64_t>(x, 0, row - size);
    y = std::clamp<std::int64_t>(y, 0, image.height - 1);
    z = std::clamp<std::int64_t>(z, 0, image.depth - 1);
  }
  if (x % size != 0)
    return {nullptr, {CUDA_ERROR_MISALIGNED_ADDRESS, "a misaligned surface access"}};
  return {image.base + z * static_cast<std::int64_t>(image.slice_bytes) +
              y * static_cast<std::int64_t>(image.row_bytes) + x,
          {}};
}

// Converts an element of sust.p to the surface's format.
std::uint32_t Encode(const ImageObject& surface, const ImageOperation& operation,
                     std::uint32_t word) {
  switch (surface.format.channel) {
    case Channel::kF16: {
      const float value = std::bit_cast<float>(word);
      return std::bit_cast<std::uint16_t>(static_cast<_Float16>(value));
    }
    case Channel::kU8:
    case Channel::kU16:
      if (!operation.is_signed && !operation.is_float)
        return std::min(word, surface.format.channel_bytes() == 1 ? 0xffU : 0xffffU);
      return word;
    case Channel::kS8:
    case Channel::kS16: {
      const std::int32_t most = surface.format.channel_bytes() == 1 ? 127 : 32767;
      return static_cast<std::uint32_t>(
          std::clamp(static_cast<std::int32_t>(word), -most - 1, most));
    }
    default:
      return word;
  }
}

template <typename T>
T Reduced(SurfaceReduction reduction, T old, T value) {
  using Signed = std::make_signed_t<T>;
  switch (reduction) {
    case SurfaceReduction::kAdd:
      return old + value;
    case SurfaceReduction::kMinSigned:
      return static_cast<T>(std::min(static_cast<Signed>(old), static_cast<Signed>(value)));
    case SurfaceReduction::kMaxSigned:
      return static_cast<T>(std::max(static_cast<Signed>(old), static_cast<Signed>(value)));
    case SurfaceReduction::kMinUnsigned:
      return std::min(old, value);
    case SurfaceReduction::kMaxUnsigned:
      return std::max(old, value);
    case SurfaceReduction::kAnd:
      return old & value;
    case SurfaceReduction::kOr:
      return old | value;
  }
  return old;
}

template <typename T>
void Reduce(std::uint8_t* bytes, SurfaceReduction reduction, T value) {
  std::atomic_ref<T> target(*reinterpret_cast<T*>(bytes));
  T old = target.load(std::memory_order_relaxed);
  while (!target.compare_exchange_weak(old, Reduced(reduction, old, value),
                                       std::memory_order_relaxed)) {
  }
}

}  // namespace

ImageFault AccessSurface(const ImageObject& surface, const ImageOperation& operation,
                         ImageWords words) {
  const bool by_texel = operation.kind == ImageKind::kSurfaceStoreFormatted ||
                        (operation.kind == ImageKind::kSurfaceReduce && operation.is_signed);
  const std::uint32_t size = operation.kind == ImageKind::kSurfaceStoreFormatted
                                 ? surface.format.bytes()
                                 : std::uint32_t{operation.element_bytes} * operation.elements;
  const Target target =
      Find(surface, operation, words, by_texel ? surface.format.bytes() : 1, size);
  if (target.fault.error != CUDA_SUCCESS) return target.fault;
  const unsigned bytes = operation.element_bytes;
  const unsigned per_element = bytes == 8 ? 2 : 1;  // Words.
  switch (operation.kind) {
    case ImageKind::kSurfaceLoad:
      for (unsigned i = 0; i < operation.elements; ++i) {
        std::uint64_t value = 0;
        if (target.bytes != nullptr) std::memcpy(&value, target.bytes + i * bytes, bytes);
        words[i * per_element] = static_cast<std::uint32_t>(value);
        if (bytes == 8) words[i * per_element + 1] = static_cast<std::uint32_t>(value >> 32);
      }
      break;
    case ImageKind::kSurfaceStore:
      for (unsigned i = 0; i < operation.elements && target.bytes != nullptr; ++i) {
        std::uint64_t value = words[kImageDataWord + i * per_element];
        if (bytes == 8) value |= std::uint64_t{words[kImageDataWord + i * per_element + 1]} << 32;
        std::memcpy(target.bytes + i * bytes, &value, bytes);
      }
      break;
    case ImageKind::kSurfaceStoreFormatted:
      for (unsigned i = 0; i < surface.format.channels && target.bytes != nullptr; ++i) {
        const std::uint32_t word = i < operation.elements ? words[kImageDataWord + i] : 0;
        const std::uint32_t value = Encode(surface, operation, word);
        const std::uint32_t channel_bytes = surface.format.channel_bytes();
        std::memcpy(target.bytes + i * channel_bytes, &value, channel_bytes);
      }
      break;
    default:
      if (target.bytes == nullptr) break;
      if (bytes == 8) {
        Reduce(target.bytes, operation.reduction,
               words[kImageDataWord] | std::uint64_t{words[kImageDataWord + 1]} << 32);
      } else {
        Reduce(target.bytes, operation.reduction, words[kImageDataWord]);
      }
  }
  return {};
}

}  // namespace cuspan::softgpu

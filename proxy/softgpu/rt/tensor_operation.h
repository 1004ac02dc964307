// Tensor instructions passed by the emitter to the runtime.
#pragma once

#include <cstdint>

#include "proxy/softgpu/rt/element.h"

namespace cuspan::softgpu {

enum class TensorCopyKind : std::uint8_t { kLoad, kStore, kReduce };

// Operands of an instruction known when it is compiled.
struct TensorOperation {
  TensorCopyKind kind = TensorCopyKind::kLoad;
  std::uint8_t dimensions = 1;
  bool im2col = false;
  Reduction reduction = Reduction::kAdd;

  std::uint32_t Pack() const {
    return static_cast<std::uint32_t>(kind) | std::uint32_t{dimensions} << 8 |
           std::uint32_t{im2col} << 16 | static_cast<std::uint32_t>(reduction) << 24;
  }
  static TensorOperation Unpack(std::uint32_t packed) {
    return {static_cast<TensorCopyKind>(packed & 0xff), static_cast<std::uint8_t>(packed >> 8),
            (packed >> 16 & 1) != 0, static_cast<Reduction>(packed >> 24)};
  }
};

// Words of an instruction: a coordinate for each dimension, then the offsets of the pixels.
inline constexpr unsigned kTensorOffsetWord = 5;
inline constexpr unsigned kTensorWords = 8;

// Fields set by tensormap.replace. Those with an ordinal come first.
enum class TensorField : std::uint32_t {
  kBox,
  kSize,
  kStride,
  kStep,
  kAddress,
  kRank,
  kElement,
  kInterleave,
  kSwizzle,
  kAtomicity,
  kFill,
};
inline constexpr unsigned kFieldsWithOrdinal = 4;

}  // namespace cuspan::softgpu

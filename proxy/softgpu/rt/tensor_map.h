// Tensor maps in this GPU's own format: the 128 bytes that programs hand to kernels, and what
// kernels change in them. (CUDA driver API, "Tensor Map Object Management"; PTX ISA,
// "tensormap.replace")
#pragma once

#include <cuda.h>

#include <cstdint>

#include "proxy/softgpu/rt/element.h"
#include "proxy/softgpu/rt/tensor_operation.h"

namespace cuspan::softgpu {

inline constexpr unsigned kMaxDimensions = 5;

struct TensorMap {
  static constexpr std::uint64_t kMagic = 0x3170614d6e6e6554;  // Else it is no map of ours.

  std::uint64_t magic = 0;
  std::uint64_t address = 0;
  std::uint64_t strides[kMaxDimensions - 1] = {};  // Bytes, of the dimensions but the first.
  std::uint32_t last[kMaxDimensions] = {};         // The largest coordinates.
  // Elements of each dimension that a copy spans; of im2col the channels, and then the pixels.
  std::uint16_t box[kMaxDimensions] = {};
  // Of im2col: the corners of the box of pixels, innermost dimension first.
  std::int16_t lower[kMaxDimensions - 2] = {}, upper[kMaxDimensions - 2] = {};
  std::uint8_t steps[kMaxDimensions] = {};  // A copy takes every so many; not of the first.
  std::uint8_t rank = 0;
  std::uint8_t element = 0;  // An Element; PTX may have put any number here and below.
  std::uint8_t interleave = 0;
  std::uint8_t swizzle = 0;  // CUtensorMapSwizzle
  std::uint8_t atomicity = 0;
  std::uint8_t fill = 0;  // CUtensorMapFloatOOBfill
  std::uint8_t im2col = 0;

  // What keeps copies from using it, a constant text; null when nothing does.
  const char* Problem() const;
};
static_assert(sizeof(TensorMap) <= sizeof(CUtensorMap));

// The span within which a swizzle moves chunks, in bytes; 0 without one.
unsigned SwizzleSpan(const TensorMap& map);

// Sets a field of the map at `memory`. Zeros, too, become a map, since kernels make maps by
// replacing all fields of zeros. False when it is neither, or has no such ordinal.
bool ReplaceField(void* memory, TensorField field, std::uint32_t ordinal, std::uint64_t value);

}  // namespace cuspan::softgpu

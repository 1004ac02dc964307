// Tensor maps in this GPU's own format: 128 bytes passed by programs to kernels, and changes of
// them by kernels. (CUDA driver API, "Tensor Map Object Management"; PTX ISA, "tensormap.replace")
#pragma once

#include <cuda.h>

#include <cstdint>

#include "proxy/softgpu/rt/element.h"
#include "proxy/softgpu/rt/tensor_operation.h"

namespace cuspan::softgpu {

inline constexpr unsigned kMaxDimensions = 5;

struct TensorMap {
  static constexpr std::uint64_t kMagic = 0x3170614d6e6e6554;  // Any other value: not our map.

  std::uint64_t magic = 0;
  std::uint64_t address = 0;
  std::uint64_t strides[kMaxDimensions - 1] = {};  // Bytes, for all dimensions but the first.
  std::uint32_t last[kMaxDimensions] = {};         // Largest coordinates.
  // Elements of a copy in each dimension. For im2col: the channels, then the pixels.
  std::uint16_t box[kMaxDimensions] = {};
  // Corners of the box of pixels for im2col, innermost dimension first.
  std::int16_t lower[kMaxDimensions - 2] = {}, upper[kMaxDimensions - 2] = {};
  std::uint8_t steps[kMaxDimensions] = {};  // Element strides of a copy; unused for the first.
  std::uint8_t rank = 0;
  std::uint8_t element = 0;  // An Element. PTX may set any number here and below.
  std::uint8_t interleave = 0;
  std::uint8_t swizzle = 0;  // CUtensorMapSwizzle
  std::uint8_t atomicity = 0;
  std::uint8_t fill = 0;  // CUtensorMapFloatOOBfill
  std::uint8_t im2col = 0;

  // Returns the reason why copies cannot use it, a constant text, or null.
  const char* Problem() const;
};
static_assert(sizeof(TensorMap) <= sizeof(CUtensorMap));

// Returns the span of the swizzle, in bytes; 0 without one.
unsigned SwizzleSpan(const TensorMap& map);

// Sets a field of the map at `memory`. Zeros also become a map: kernels make maps by replacing all
// fields of zeros. False if it is neither, or has no such ordinal.
bool ReplaceField(void* memory, TensorField field, std::uint32_t ordinal, std::uint64_t value);

}  // namespace cuspan::softgpu

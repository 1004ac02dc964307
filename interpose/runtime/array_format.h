// Conversion of element formats of arrays and textures, between the runtime's channel descriptors
// and the driver's formats. Pure functions.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <optional>

#include "interpose/runtime/api.h"

namespace cuspan {

struct ElementFormat {
  std::uint32_t format;  // CUarray_format
  std::uint32_t channels;
};

// Empty if arrays do not support the elements. Supported are 1, 2 or 4 channels of 8, 16 or 32 bits
// (floating point: 16 or 32), all with the same size.
std::optional<ElementFormat> FormatOf(const cudaChannelFormatDesc& desc);

// Inverse of FormatOf.
cudaChannelFormatDesc DescOf(const ElementFormat& format);

}  // namespace cuspan

// Element formats of arrays and textures: the runtime's channel descriptors and
// the driver's formats. Pure functions.
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

// Nothing when arrays have no such elements: they have 1, 2 or 4 channels of
// the same 8, 16 or 32 bits (floating point: 16 or 32).
std::optional<ElementFormat> FormatOf(const cudaChannelFormatDesc& desc);

// The descriptor of a format that FormatOf made.
cudaChannelFormatDesc DescOf(const ElementFormat& format);

}  // namespace cuspan

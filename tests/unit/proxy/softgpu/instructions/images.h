// Arrays on a device, with known texels.
#pragma once

#include <cuda.h>

#include "tests/unit/proxy/softgpu/instructions/gpu.h"

namespace cuspan::ptx_forms {

// Shape of an image. Each texel (x, y, z) of a level has known channels. Sizes are in texels;
// `flags` are those of CUDA_ARRAY3D_DESCRIPTOR.
struct Shape {
  unsigned width = 8, height = 0, depth = 0, flags = 0, levels = 1;
};

// The value of a texel's channel.
float ValueAt(unsigned x, unsigned y, unsigned z, unsigned channel, unsigned level);

// Bytes of one channel.
unsigned SizeOfFormat(CUarray_format format);

// Makes an array, mipmapped if the shape has levels. Float channels are ValueAt. Integers are its
// whole part times 3 plus 7, truncated to the type. The array is kept until the process ends. A
// failure ends the process.
CUDA_RESOURCE_DESC MakeResource(Gpu& gpu, const Shape& shape, CUarray_format format,
                                unsigned channels);

}  // namespace cuspan::ptx_forms

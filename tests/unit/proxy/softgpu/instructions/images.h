// Arrays on a device, with texels that tests know.
#pragma once

#include <cuda.h>

#include "tests/unit/proxy/softgpu/instructions/gpu.h"

namespace cuspan::ptx_forms {

// What the tests make images of: texel (x, y, z) of a level has known channels. Sizes in texels;
// `flags` are those of CUDA_ARRAY3D_DESCRIPTOR.
struct Shape {
  unsigned width = 8, height = 0, depth = 0, flags = 0, levels = 1;
};

// The value of a texel's channel.
float ValueAt(unsigned x, unsigned y, unsigned z, unsigned channel, unsigned level);

// Bytes of one channel.
unsigned SizeOfFormat(CUarray_format format);

// An array, or a mipmapped one where the shape has levels, full of such texels: floats have
// ValueAt, integers three times its whole part and 7, cut to the type. It stays until the process
// ends; a failure ends the process.
CUDA_RESOURCE_DESC MakeResource(Gpu& gpu, const Shape& shape, CUarray_format format,
                                unsigned channels);

}  // namespace cuspan::ptx_forms

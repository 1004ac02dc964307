// Device properties in the runtime's structure. Pure functions.
#pragma once

#include "interpose/runtime/api.h"
#include "structs.gen.h"

namespace cuspan {

// cudaDeviceProp of CUDA 13.
cudaDeviceProp MakeProperties(const DeviceDescription& device);

}  // namespace cuspan

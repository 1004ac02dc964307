// Placement of a __managed__ variable of the software GPU in memory shared with the program. The
// library exports cuspan_soft_place_variable for it; no other driver does.
#pragma once

#include <cuda.h>

namespace cuspan::softgpu {

// Places the variable at `address` for the kernels of `module` and for cuModuleGetGlobal. Initial
// values containing its address are updated. Its bytes are not copied. The caller owns the memory
// at `address`, at least as large as the variable, until the module is unloaded. Returns
// CUDA_ERROR_NOT_FOUND if no __managed__ variable has the name. Returns CUDA_ERROR_NOT_PERMITTED if
// code of the module already has its address, after the first launch.
using PlaceVariable = CUresult (*)(CUmodule module, const char* name, CUdeviceptr address);
inline constexpr const char* kPlaceVariable = "cuspan_soft_place_variable";

}  // namespace cuspan::softgpu

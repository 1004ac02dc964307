// How the proxy has a __managed__ variable of the software GPU placed in memory that the program
// shares. The library exports cuspan_soft_place_variable for that; no other driver can.
#pragma once

#include <cuda.h>

namespace cuspan::softgpu {

// The kernels of `module` have the variable at `address` from now on, and cuModuleGetGlobal says
// so, too; initial values of variables that hold its address are changed. Its bytes are not copied.
// The caller has memory there, of at least as many bytes, for as long as the module is loaded.
// CUDA_ERROR_NOT_FOUND when there is no __managed__ variable of that name,
// CUDA_ERROR_NOT_PERMITTED when code of the module has its address already: after the first launch.
using PlaceVariable = CUresult (*)(CUmodule module, const char* name, CUdeviceptr address);
inline constexpr const char* kPlaceVariable = "cuspan_soft_place_variable";

}  // namespace cuspan::softgpu

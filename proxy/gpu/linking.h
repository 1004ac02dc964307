// Loading of device code, linked for this device if necessary.
#pragma once

#include <cstddef>
#include <span>

#include "proxy/gpu/driver.h"
#include "proxy/gpu/jit.h"

namespace cuspan::proxy {

// Loads `image` (fatbin::WithObjects, or any input of cuModuleLoadData) into the current context,
// with the options `jit`. A program of relocatable code (nvcc -rdc=true) contains linked machine
// code only for the architectures chosen at compilation. For others, the driver links the PTX or
// machine code of its objects, like the CUDA runtime. Modifies `image`. Logs error messages of the
// linker.
CUresult LoadImage(const Driver& driver, std::span<std::byte> image, JitArguments& jit,
                   CUmodule* module);

}  // namespace cuspan::proxy

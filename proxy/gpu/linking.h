// Loading device code that may have to be linked on this device first.
#pragma once

#include <cstddef>
#include <span>

#include "proxy/gpu/driver.h"
#include "proxy/gpu/jit.h"

namespace cuspan::proxy {

// Loads `image` (fatbin::WithObjects, or anything else that cuModuleLoadData takes) into the
// current context, with the options in `jit`. A program of relocatable code (nvcc -rdc=true) holds
// machine code that was linked for the architectures named at its compilation only; on another one
// the driver links the PTX or the machine code of its objects, as the CUDA runtime does. `image` is
// changed. What the linker has to say against it is logged.
CUresult LoadImage(const Driver& driver, std::span<std::byte> image, JitArguments& jit,
                   CUmodule* module);

}  // namespace cuspan::proxy

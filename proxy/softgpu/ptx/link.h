// Linking: the PTX of several objects (nvcc's -rdc=true) made into that of one module.
#pragma once

#include <span>
#include <string>

#include "common/status.h"

namespace cuspan::softgpu::ptx {

// One text with all that `texts` define. What .visible and .weak mean between objects holds: of
// weak definitions of a name the first stays, and names that are an object's own are made
// different from another's. What stays undefined shows when a kernel that needs it is compiled.
// kInvalid, with the line, for text that is not PTX, and for a name that two objects define.
Result<std::string> LinkModules(std::span<const std::string> texts);

}  // namespace cuspan::softgpu::ptx

// Linking: the PTX of several objects (nvcc's -rdc=true) made into that of one module.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace cuspan::ptx {

// One text with all that `texts` define. What .visible and .weak mean between objects holds: of
// weak definitions of a name the first stays, and names that are an object's own are made
// different from another's. What stays undefined UndefinedNames tells.
// kInvalid, with the line, for text that is not PTX, and for a name that two objects define.
Result<std::string> LinkModules(std::span<const std::string> texts);

// The functions and variables that the code in `text` uses and `text` does not define. kInvalid,
// with the line, for text that is not PTX; bodies that can not be compiled yet are left out.
Result<std::vector<std::string>> UndefinedNames(std::string_view text);

}  // namespace cuspan::ptx

// Linking: combines the PTX of several objects (nvcc's -rdc=true) into one module.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace cuspan::ptx {

// Returns one text with all definitions of `texts`, following the rules of .visible and .weak. Of
// several weak definitions, the first is used. Private names of an object are made unique.
// UndefinedNames returns the names still undefined. kInvalid, with the line, if a text is not PTX,
// or if two objects define the same name.
Result<std::string> LinkModules(std::span<const std::string> texts);

// Returns functions and variables used but not defined in `text`. kInvalid, with the line, if it is
// not PTX. Bodies with unsupported features are skipped.
Result<std::vector<std::string>> UndefinedNames(std::string_view text);

}  // namespace cuspan::ptx

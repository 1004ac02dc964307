// The first pass over a module: reads all declarations and skips function
// bodies, remembering where they stand.
#pragma once

#include <string_view>

#include "common/status.h"
#include "proxy/ptx/module.h"

namespace cuspan::ptx {

// `text` must outlive the module. kInvalid with the line for text that is not
// PTX; kUnsupported with the line for declarations that are not implemented.
Result<Module> IndexModule(std::string_view text);

}  // namespace cuspan::ptx

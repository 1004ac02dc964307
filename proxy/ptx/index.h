// First pass over a module: reads all declarations and skips function bodies, storing their
// positions.
#pragma once

#include <string_view>

#include "common/status.h"
#include "proxy/ptx/module.h"

namespace cuspan::ptx {

// `text` must outlive the module. Errors include the line: kInvalid if the text is not PTX;
// kUnsupported for declarations not implemented.
Result<Module> IndexModule(std::string_view text);

}  // namespace cuspan::ptx

// Second pass: the body of one function.
#pragma once

#include <string_view>

#include "common/status.h"
#include "proxy/ptx/module.h"

namespace cuspan::ptx {

// Parses the body of `function`, found by IndexModule in `text` and `defined`. Resolves scopes,
// registers, local variables and labels. Names of the module remain symbols. Errors include the
// line: kInvalid if the text is not PTX, kUnsupported for declarations not implemented. Threads:
// any.
Result<Body> ParseBody(std::string_view text, const Function& function);

}  // namespace cuspan::ptx

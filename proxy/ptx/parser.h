// The second pass: the body of one function.
#pragma once

#include <string_view>

#include "common/status.h"
#include "proxy/ptx/module.h"

namespace cuspan::ptx {

// Parses the body of `function`, which IndexModule found in `text` and which is
// `defined`. Scopes, registers, local variables and labels are resolved; names
// of the module are left as symbols. Thread-safe. kInvalid with the line for
// what is not PTX, kUnsupported with the line for declarations not implemented.
Result<Body> ParseBody(std::string_view text, const Function& function);

}  // namespace cuspan::ptx

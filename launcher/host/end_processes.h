// Ends processes that are not children of this one.
#pragma once

#include <string_view>

namespace cuspan {

// Kills all processes of this user that were started with this variable, but the calling one, and
// returns when they are gone, after two seconds at the latest. Nothing without a value.
void EndProcessesWith(std::string_view variable, std::string_view value);

}  // namespace cuspan

// Ending of processes other than children.
#pragma once

#include <string_view>

namespace cuspan {

// Kills all processes of this user started with this variable, except the calling one. Returns when
// they have ended, after two seconds at the latest. Does nothing if `value` is empty.
void EndProcessesWith(std::string_view variable, std::string_view value);

}  // namespace cuspan

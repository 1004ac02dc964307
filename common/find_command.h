// Finds executables as a shell does.
#pragma once

#include <string>
#include <string_view>

#include "common/status.h"

namespace cuspan {

// Path of the executable `command`, searched for as execvp does. kNotFound, and kRefused (it
// exists, but can not be executed), give the reason in one sentence.
Result<std::string> FindCommand(const std::string& command, std::string_view search_path);

// NVIDIA's MPS control program on this host: from CUSPAN_MPS_CONTROL, in PATH or in /usr/bin.
Result<std::string> FindMpsControl();

}  // namespace cuspan

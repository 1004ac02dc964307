// Programs as a shell finds them.
#pragma once

#include <string>
#include <string_view>

#include "common/status.h"

namespace cuspan {

// The path of `command` if it can be run, looked for as execvp does. kNotFound and
// kRefused (exists, but can not be executed) say why not in one sentence.
Result<std::string> FindCommand(const std::string& command, std::string_view search_path);

// The program that controls NVIDIA's MPS, on this host: as CUSPAN_MPS_CONTROL says, in PATH or in
// /usr/bin.
Result<std::string> FindMpsControl();

}  // namespace cuspan

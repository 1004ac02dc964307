// Whether the client library can be in a program's process at all. Two kinds of programs are known
// by their file alone, and nothing in them could say what is wrong.
#pragma once

#include <string>

#include "common/status.h"

namespace cuspan {

// A program that the dynamic loader does not start, with CUDA code in it: kUnsupported. Others
// pass, also what is no ELF file, such as a script.
Status CheckEntered(const std::string& path);

// What the user should know of a program that can be entered by some, and not here: one sentence;
// empty for others. For a program that gets rights of its own the loader leaves out LD_PRELOAD.
std::string WarnOfOwnRights(const std::string& path);

}  // namespace cuspan

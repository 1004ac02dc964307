// Whether the client library can be in a program's process at all. Two kinds of programs are known
// by their file alone, and nothing in them could say what is wrong.
#pragma once

#include <string>

#include "common/status.h"

namespace cuspan {

// A program that the dynamic loader does not start, with CUDA code in it: kUnsupported. Others
// pass, also what is no ELF file, such as a script.
Status CheckEntered(const std::string& path);

// True for a program that calls the kernel without the C library: one that the dynamic loader does
// not start, or one of Go. It does not see the run's device files.
bool CallsKernelItself(const std::string& path);

// What the user should know of a program that can be entered by some, and not here: one sentence;
// empty for others. For a program that gets rights of its own the loader leaves out LD_PRELOAD.
std::string WarnOfOwnRights(const std::string& path);

// True for a file that no shell can read: an ELF file, or one with a zero byte in its first line,
// as bash decides it.
bool IsBinary(const std::string& path);

// Why execve answered `error` for the program `name`, which is the file `path`; "" if there is
// none. kNotFound: it is not there. kRefused: it is, and cannot be executed.
Status ExplainStart(const std::string& name, const std::string& path, int error);

}  // namespace cuspan

// Checks for programs the client library cannot enter. Two kinds are recognised from the file
// alone; no code inside them could report the problem.
#pragma once

#include <string>

#include "common/status.h"

namespace cuspan {

// kUnsupported for a program with CUDA code and without the dynamic loader. All other files pass,
// including non-ELF files such as scripts.
Status CheckEntered(const std::string& path);

// True for a program that makes system calls without the C library: one without the dynamic loader,
// or one written in Go. It does not see the run's device files.
bool CallsKernelItself(const std::string& path);

// A warning in one sentence about a program with elevated privileges for this user; empty for
// others. The loader ignores LD_PRELOAD for these programs.
std::string WarnOfOwnRights(const std::string& path);

// True for a file not readable by a shell: an ELF file, or one with a zero byte in its first line
// (bash's criterion).
bool IsBinary(const std::string& path);

// Explains the errno `error` of execve for the program `name` with the file `path` ("" if not
// found). kNotFound: the file does not exist. kRefused: it exists but cannot be executed.
Status ExplainStart(const std::string& name, const std::string& path, int error);

}  // namespace cuspan

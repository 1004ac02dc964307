// The driver's log of what failed and why, which is empty here: a cause is in the error, and what a
// user needs to know beside it cuspan says itself (CUSPAN_LOG). Any thread, before all else, too.
#pragma once

#include <cstddef>
#include <cstdint>

#include "interpose/calls/error.h"

namespace cuspan {

// All: CUDA_ERROR_INVALID_VALUE for null pointers and flags.
// Where the next message will be.
Error CurrentLog(unsigned* iterator, unsigned flags);
// Into `bytes` of the buffer, which tells how many were written.
Error DumpLog(char* buffer, std::size_t* bytes, unsigned flags);
Error DumpLogToFile(const char* path, unsigned flags);
// The callback is called for every message: never.
Error RegisterLogCallback(bool is_function, std::uint64_t* handle);
Error UnregisterLogCallback(std::uint64_t handle);

}  // namespace cuspan

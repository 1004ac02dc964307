// The driver's log of failures and their reasons, always empty here. The error tells the cause, and
// cuspan logs further details itself (CUSPAN_LOG). Threads: any, also before CUDA is initialised.
#pragma once

#include <cstddef>
#include <cstdint>

#include "interpose/calls/base/error.h"

namespace cuspan {

// All functions: CUDA_ERROR_INVALID_VALUE for null pointers and flags. *iterator: position of the
// next message.
Error CurrentLog(unsigned* iterator, unsigned flags);
// *bytes: size of the buffer; receives the number of bytes written.
Error DumpLog(char* buffer, std::size_t* bytes, unsigned flags);
Error DumpLogToFile(const char* path, unsigned flags);
// The callback is never called: the log stays empty.
Error RegisterLogCallback(bool is_function, std::uint64_t* handle);
Error UnregisterLogCallback(std::uint64_t handle);

}  // namespace cuspan

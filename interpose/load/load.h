// What the rest of the client may ask about how this process was entered.
#pragma once

#include <cstdint>

namespace cuspan {

// A line for a person when a CUDA runtime that is linked into the program, or
// into a library it has loaded so far, could not be replaced by ours: what, why
// and what to do; without "cuspan: " before and line break behind. Null when all
// is well. Stays valid and the same once it is there; may come later, when a
// library is loaded. Any thread, any time, also before main.
const char* LoadWarning();

// The same line, or a lesser one (that libraries loaded later can not be seen): for whom a runtime
// that was not replaced has asked.
const char* AnyLoadWarning();

// The major release (11, 12 or 13) of the CUDA runtime that is linked into the program or library
// whose code `address` is, and that now leads to ours; 0 where none is. Any thread, any time.
int LinkedRuntimeRelease(const void* address);

// The identity of that runtime: of no other in this process, before and after. 0 where none is
// linked into it: the shared libcudart's. Any thread, any time.
std::uint64_t LinkedRuntime(const void* address);

// The file that the program has loaded as libnccl.so.2 by its path, whose functions lead to ours;
// empty where it has none. Stays valid and the same once it is there. Any thread, any time.
const char* ProgramsNccl();

}  // namespace cuspan

// What the rest of the client may ask about how this process was entered.
#pragma once

namespace cuspan {

// A line for a person when a CUDA runtime that is linked into the program, or
// into a library it has loaded so far, could not be replaced by ours: what, why
// and what to do; without "cuspan: " before and line break behind. Null when all
// is well. Stays valid and the same once it is there; may come later, when a
// library is loaded. Any thread, any time, also before main.
const char* LoadWarning();

// True when CUSPAN_SOCKET was in the environment when the library was loaded.
// Without it nothing in the process is touched.
bool LoadedByCuspan();

// The major release (11, 12 or 13) of the CUDA runtime that is linked into the program or library
// whose code `address` is, and that now leads to ours; 0 where none is. Any thread, any time.
int LinkedRuntimeRelease(const void* address);

}  // namespace cuspan

// The same line, or a lesser one (that libraries loaded later can not be seen),
// for the stand-in libcuda.so.1, which finds it by dlsym: a CUDA runtime that was
// not entered ends up there.
extern "C" const char* cuspan_load_warning();

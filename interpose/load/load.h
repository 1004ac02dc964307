// Queries of the client about the entry into this process (see enter.cc).
#pragma once

#include <cstdint>

namespace cuspan {

// A message if a CUDA runtime linked into the program, or into a library loaded so far, could not
// be replaced: the runtime, the reason and the remedy. It has no "cuspan: " prefix and no line
// break. Null if there was no problem. Once set, it is constant and valid forever; loading a
// library may set it later. Threads: any, at any time, also before main.
const char* LoadWarning();

// Same message, or a less important one (libraries loaded later cannot be entered). For requests by
// a runtime not replaced.
const char* AnyLoadWarning();

// Major release (11, 12 or 13) of the CUDA runtime linked into the program or library with the code
// at `address`, if its functions were redirected. 0 otherwise. Threads: any, at any time.
int LinkedRuntimeRelease(const void* address);

// Unique identity of this runtime, never reused in the process. 0 if none is linked in, for the
// shared libcudart. Threads: any, at any time.
std::uint64_t LinkedRuntime(const void* address);

// Path of the file loaded by the program as libnccl.so.2, with its functions redirected to ours.
// Empty if there is none. Once set, it is constant and valid forever. Threads: any, at any time.
const char* ProgramsNccl();

// Version of cuFile in the program (1150: 1.15): that of the file loaded as libcufile.so.0, with
// its functions redirected to ours, or else the one of our own library. Threads: any, at any time.
int ProgramsCufileVersion();

}  // namespace cuspan

// Entering one program or library of this process: reading its file, finding a
// CUDA runtime linked into it and sending that runtime's functions to ours; or
// sending what it exports to ours, where it is a library that we answer for.
// Called by one thread at a time; no allocation, no C library.
#pragma once

#include <cstdint>

#include "interpose/load/exports.h"
#include "interpose/load/warning.h"

namespace cuspan::load {

// An object as the dynamic loader describes it.
struct LoadedObject {
  const char* path;       // To open.
  const char* name;       // For a person.
  std::uint64_t bias;     // Added to the file's virtual addresses.
  std::uint64_t dynamic;  // Where its dynamic section lies in memory.
  bool is_program;        // The main executable.
  bool has_run;           // Some of its code ran before this library was loaded.
};

enum class Entered {
  kNothingToDo,  // Nothing in it that we answer for, or only what symbol lookup finds in ours.
  kDone,         // Its functions now lead to ours.
  kNotReadable,  // The file is not there, or no ELF file.
  kOtherFile,    // The file at that path is not what was loaded.
  kNotEntered,   // A warning says why.
};

// Enters one object, wholly or not at all; `runtime` has our functions of the CUDA runtime.
// `serious` says why a runtime that is linked in can not be replaced, `lesser` why a library is
// reached by some ways only. Ends the process, with a line on standard error, in the one case in
// which it could not run on: its code was changed, may not run, and can not be put back.
Entered EnterObject(const LoadedObject& object, const ExportTable& runtime, Warning* serious,
                    Warning* lesser);

// Makes the dynamic loader call `function` wherever it tells debuggers that its
// list of objects changed: `breakpoint` is the function it calls for that
// (r_debug.r_brk), which does nothing. If a debugger has its own breakpoint there already, it calls
// `debugged` instead, which is to call `breakpoint` in the end. False, and a line in `warning`,
// when it can not be done.
bool HookLoader(const LoadedObject& loader, std::uint64_t breakpoint, void (*function)(),
                void (*debugged)(), Warning* warning);

}  // namespace cuspan::load

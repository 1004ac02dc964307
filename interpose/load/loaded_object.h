// Entry into one program or library of this process. Reads its file, finds a CUDA runtime linked
// into it, and redirects the runtime's functions to ours. If the object is a library replaced by
// us, redirects its exported functions instead. Threads: one at a time. No allocation, no C
// library.
#pragma once

#include <cstdint>

#include "interpose/load/exports.h"
#include "interpose/load/warning.h"

namespace cuspan::load {

// An object, as described by the dynamic loader.
struct LoadedObject {
  const char* path;       // To open.
  const char* name;       // Used in messages.
  std::uint64_t bias;     // Added to the file's virtual addresses.
  std::uint64_t dynamic;  // Address of its dynamic section in memory.
  bool is_program;        // The main executable.
  bool has_run;           // Some of its code ran before this library was loaded.
};

enum class Entered {
  kNothingToDo,  // Nothing to replace, or symbol lookup already finds ours.
  kDone,         // Its functions are redirected to ours.
  kNotReadable,  // The file does not exist, or is no ELF file.
  kOtherFile,    // The file at this path is not the loaded one.
  kNotEntered,   // A warning has the reason.
};

// Enters one object, completely or not at all. `runtime`: our functions of the CUDA runtime.
// `serious` gets the reason if a linked runtime cannot be replaced. `lesser` gets the reason if a
// library can be reached past our functions. In one case, ends the process with a line on standard
// error: code was changed, is no longer executable, and cannot be restored.
Entered EnterObject(const LoadedObject& object, const ExportTable& runtime, Warning* serious,
                    Warning* lesser);

// Makes the dynamic loader call `function` whenever it notifies debuggers of a changed object list.
// `breakpoint` is the empty function called for this (r_debug.r_brk). If a debugger has already set
// a breakpoint there, the loader calls `debugged` instead, and `debugged` must finally call
// `breakpoint`. On failure, returns false and adds a line to `warning`.
bool HookLoader(const LoadedObject& loader, std::uint64_t breakpoint, void (*function)(),
                void (*debugged)(), Warning* warning);

}  // namespace cuspan::load

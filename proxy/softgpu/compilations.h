// What the software GPU tells of each kernel that it has compiled. The library exports
// cuspan_soft_watch_compilations for that; no other driver has it.
#pragma once

#include <cstdint>

namespace cuspan::softgpu {

struct Compilation {
  const char* kernel;   // As PTX names it.
  const char* form;     // Which code it is: "thread", "thread, quick", "warp 32 true true", …
  std::uint64_t begin;  // Nanoseconds of CLOCK_MONOTONIC.
  std::uint64_t end;
  bool waited;  // A launch waited for it; else the kernel ran in other code meanwhile.
};

// Called with `argument` when a compilation has ended, by whatever thread had it done: the one that
// launches, or one of the library's. What it is given is there until it returns.
using CompilationWatcher = void (*)(void* argument, const Compilation& compilation);

// The exported function's type. There is one watcher, and it stays: called once, before any launch.
using WatchCompilations = void (*)(CompilationWatcher watcher, void* argument);
inline constexpr const char* kWatchCompilations = "cuspan_soft_watch_compilations";

}  // namespace cuspan::softgpu

// Notification about each kernel compiled by the software GPU. Its library exports
// cuspan_soft_watch_compilations for it; no other driver does.
#pragma once

#include <cstdint>

namespace cuspan::softgpu {

struct Compilation {
  const char* kernel;   // PTX name.
  const char* form;     // Kind of code: "thread", "thread, quick", "warp 32 true true", …
  std::uint64_t begin;  // Nanoseconds of CLOCK_MONOTONIC.
  std::uint64_t end;
  bool waited;  // A launch waited for it; else the kernel ran other code meanwhile.
};

// Called with `argument` after a compilation. Threads: the launching thread, or one of the
// library's. `compilation` is valid until the call returns.
using CompilationWatcher = void (*)(void* argument, const Compilation& compilation);

// Type of the exported function. Sets the only watcher; called once, before any launch.
using WatchCompilations = void (*)(CompilationWatcher watcher, void* argument);
inline constexpr const char* kWatchCompilations = "cuspan_soft_watch_compilations";

}  // namespace cuspan::softgpu

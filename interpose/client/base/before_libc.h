// Functions of the C library that come before its own in the program, and the way to its own.
#pragma once

#include <dlfcn.h>

#include <atomic>

#define CUSPAN_BEFORE_LIBC extern "C" __attribute__((visibility("default")))

namespace cuspan {

// The next definition of a function, which may be another preloaded library's; null: none.
// `known` keeps it. Any thread.
template <typename Function>
Function* Next(std::atomic<Function*>& known, const char* name) {
  Function* function = known.load(std::memory_order_acquire);
  if (function == nullptr) {
    function = reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
    known.store(function, std::memory_order_release);
  }
  return function;
}

}  // namespace cuspan

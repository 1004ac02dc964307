// Functions of the C library replaced by the client's own, and access to the replaced ones.
#pragma once

#include <dlfcn.h>

#include <atomic>

#define CUSPAN_BEFORE_LIBC extern "C" __attribute__((visibility("default")))

namespace cuspan {

// Returns the next definition of a function, perhaps another preloaded library's; null: none.
// `known` caches it. Threads: any.
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

// A maximum kept by several threads.
#pragma once

#include <atomic>

namespace cuspan {

// Sets `maximum` to `value` if that is larger. Everything before the call happens before a load
// (with memory_order_acquire) of the new maximum.
template <typename T>
void RaiseTo(std::atomic<T>& maximum, T value) {
  T known = maximum.load(std::memory_order_relaxed);
  while (known < value && !maximum.compare_exchange_weak(known, value, std::memory_order_release)) {
  }
}

}  // namespace cuspan

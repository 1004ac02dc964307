// Notifies the address and thread sanitizers of fiber switches. Ordinary builds do nothing.
#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

// Attribute of functions switching the running fiber. The thread sanitizer must not record their
// begin on one fiber and their end on another. The address sanitizer must not keep their variables
// in a frame abandoned by the switch.
#if defined(__SANITIZE_THREAD__)
#define CUSPAN_RT_SWITCHES __attribute__((no_sanitize("thread")))
#elif defined(__SANITIZE_ADDRESS__)
#define CUSPAN_RT_SWITCHES __attribute__((no_sanitize("address")))
#else
#define CUSPAN_RT_SWITCHES
#endif

namespace cuspan::softgpu::sanitizer {

// True if a sanitizer tracks remains on a stack.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool kWatchesStacks = true;
#else
inline constexpr bool kWatchesStacks = false;
#endif

// Clears sanitizer state of frames on an abandoned stack.
inline void Unpoison([[maybe_unused]] void* memory, [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(memory, bytes);
#endif
}

// Thread sanitizer's handle of the running thread, and of a new fiber.
inline void* CurrentFiber() {
#if defined(__SANITIZE_THREAD__)
  return __tsan_get_current_fiber();
#else
  return nullptr;
#endif
}
inline void* CreateFiber() {
#if defined(__SANITIZE_THREAD__)
  return __tsan_create_fiber(0);
#else
  return nullptr;
#endif
}
inline void DestroyFiber([[maybe_unused]] void* fiber) {
#if defined(__SANITIZE_THREAD__)
  if (fiber != nullptr) __tsan_destroy_fiber(fiber);
#endif
}

// Calls around a switch: BeforeSwitch on the old stack, AfterSwitch first on the new one.
CUSPAN_RT_SWITCHES inline void BeforeSwitch([[maybe_unused]] void** saved,
                                            [[maybe_unused]] const void* low,
                                            [[maybe_unused]] std::size_t bytes,
                                            [[maybe_unused]] void* fiber) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(saved, low, bytes);
#endif
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(fiber, 0);
#endif
}
CUSPAN_RT_SWITCHES inline void AfterSwitch([[maybe_unused]] void* saved) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(saved, nullptr, nullptr);
#endif
}

}  // namespace cuspan::softgpu::sanitizer

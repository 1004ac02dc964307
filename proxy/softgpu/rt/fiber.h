// Executions with stacks of their own, and switching between them.
#pragma once

#include <cstddef>

#include "proxy/softgpu/rt/sanitizer.h"
#include "proxy/softgpu/rt/stack.h"

// Defined in switch.S.
extern "C" {
void cuspan_rt_switch(void** saved, void* resumed);
void cuspan_rt_begin(void** saved, void* top, void* (*entry)(void*), void* argument);
}

namespace cuspan::softgpu {

// Saved position of an execution, and its stack: a worker thread's own, or a fiber's.
struct Execution {
  void* stack_pointer = nullptr;
  const void* low = nullptr;
  std::size_t bytes = 0;
  void* sanitizer_fiber = nullptr;
  void* sanitizer_frames = nullptr;

  // Returns the calling thread's own stack, to switch away from and back to.
  static Execution OfThisThread();
  // Creates a fiber calling `entry(argument)` on `stack`; entry must begin with FiberStarted(). It
  // ends by SwitchAway. In builds without sanitizers, it may also return the stack pointer of the
  // execution to continue.
  static Execution OnStack(Stack& stack, void* (*entry)(void*), void* argument);
};

// Must be the first call on a new fiber.
void FiberStarted();

// Suspends `from` (the running execution) and continues `to`. Returns once `from` is resumed.
CUSPAN_RT_SWITCHES inline void Switch(Execution& from, const Execution& to) {
  sanitizer::BeforeSwitch(&from.sanitizer_frames, to.low, to.bytes, to.sanitizer_fiber);
  cuspan_rt_switch(&from.stack_pointer, to.stack_pointer);
  sanitizer::AfterSwitch(from.sanitizer_frames);
}

// Switches to a new fiber, stored in `to` as by Execution::OnStack. Not for sanitizers.
inline void SwitchToNew(Execution& from, Execution& to, Stack& stack, void* (*entry)(void*),
                        void* argument) {
  to.low = stack.low;
  to.bytes = stack.bytes;
  cuspan_rt_begin(&from.stack_pointer, stack.top, entry, argument);
}

// Leaves the running execution for good.
[[noreturn]] void SwitchAway(const Execution& to);

}  // namespace cuspan::softgpu

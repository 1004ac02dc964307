// A flow of execution with a stack of its own, and switching between them.
#pragma once

#include <cstddef>

#include "proxy/softgpu/rt/sanitizer.h"
#include "proxy/softgpu/rt/stack.h"

// In switch.S.
extern "C" {
void cuspan_rt_switch(void** saved, void* resumed);
void cuspan_rt_begin(void** saved, void* top, void* (*entry)(void*), void* argument);
}

namespace cuspan::softgpu {

// Where a flow of execution was left, and its stack. Either a worker thread's
// own, or a fiber's.
struct Execution {
  void* stack_pointer = nullptr;
  const void* low = nullptr;
  std::size_t bytes = 0;
  void* sanitizer_fiber = nullptr;
  void* sanitizer_frames = nullptr;

  // The calling thread's own stack, to switch away from and back to.
  static Execution OfThisThread();
  // A fiber that will call `entry(argument)` on `stack`; entry must begin with FiberStarted().
  // It leaves for good by SwitchAway or, in builds without sanitizers, by returning the stack
  // pointer of the execution that goes on.
  static Execution OnStack(Stack& stack, void* (*entry)(void*), void* argument);
};

// First call on a new fiber.
void FiberStarted();

// Leaves `from` (the running flow) and goes on with `to`; returns when somebody switches back.
CUSPAN_RT_SWITCHES inline void Switch(Execution& from, const Execution& to) {
  sanitizer::BeforeSwitch(&from.sanitizer_frames, to.low, to.bytes, to.sanitizer_fiber);
  cuspan_rt_switch(&from.stack_pointer, to.stack_pointer);
  sanitizer::AfterSwitch(from.sanitizer_frames);
}

// Switches to a new fiber, as from Execution::OnStack, which becomes `to`. Not for sanitizers.
inline void SwitchToNew(Execution& from, Execution& to, Stack& stack, void* (*entry)(void*),
                        void* argument) {
  to.low = stack.low;
  to.bytes = stack.bytes;
  cuspan_rt_begin(&from.stack_pointer, stack.top, entry, argument);
}

// Leaves the running flow for good.
[[noreturn]] void SwitchAway(const Execution& to);

}  // namespace cuspan::softgpu

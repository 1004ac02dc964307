// A flow of execution with a stack of its own, and switching between them.
#pragma once

#include <cstddef>

#include "proxy/softgpu/rt/stack.h"

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
  // A fiber that will call `entry(argument)` on `stack`; entry must not return
  // and begin with FiberStarted().
  static Execution OnStack(Stack& stack, void (*entry)(void*), void* argument);
};

// First call on a new fiber.
void FiberStarted();

// Leaves `from` (the running flow) and goes on with `to`; returns when somebody switches back.
void Switch(Execution& from, const Execution& to);

// Leaves the running flow for good.
[[noreturn]] void SwitchAway(const Execution& to);

}  // namespace cuspan::softgpu

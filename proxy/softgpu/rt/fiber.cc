#include "proxy/softgpu/rt/fiber.h"

#include <pthread.h>

#include <cstdint>
#include <cstdlib>

#include "proxy/softgpu/rt/sanitizer.h"

extern "C" void cuspan_rt_start();

namespace cuspan::softgpu {
namespace {

// Values popped by cuspan_rt_resume, lowest address first.
struct InitialFrame {
  std::uint64_t r15, r14, r13;
  void* (*r12)(void*);
  void* rbx;
  std::uint64_t rbp;
  void (*return_address)();
};

}  // namespace

Execution Execution::OfThisThread() {
  Execution execution;
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
    void* low = nullptr;
    pthread_attr_getstack(&attributes, &low, &execution.bytes);
    execution.low = low;
    pthread_attr_destroy(&attributes);
  }
  execution.sanitizer_fiber = sanitizer::CurrentFiber();
  return execution;
}

Execution Execution::OnStack(Stack& stack, void* (*entry)(void*), void* argument) {
  if (stack.sanitizer == nullptr) stack.sanitizer = sanitizer::CreateFiber();
  // After the return to cuspan_rt_start the stack pointer is stack.top, 16-aligned as a call
  // instruction needs it.
  auto* frame = reinterpret_cast<InitialFrame*>(stack.top - sizeof(InitialFrame));
  *frame = InitialFrame{0, 0, 0, entry, argument, 0, cuspan_rt_start};
  Execution execution;
  execution.stack_pointer = frame;
  execution.low = stack.low;
  execution.bytes = stack.bytes;
  execution.sanitizer_fiber = stack.sanitizer;
  return execution;
}

CUSPAN_RT_SWITCHES void FiberStarted() { sanitizer::AfterSwitch(nullptr); }

CUSPAN_RT_SWITCHES void SwitchAway(const Execution& to) {
  sanitizer::BeforeSwitch(nullptr, to.low, to.bytes, to.sanitizer_fiber);
  void* unused = nullptr;
  cuspan_rt_switch(&unused, to.stack_pointer);
  std::abort();
}

}  // namespace cuspan::softgpu

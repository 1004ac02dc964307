#include "proxy/softgpu/rt/fault.h"

#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <atomic>
#include <cstdint>
#include <mutex>

#include "proxy/softgpu/rt/code_ranges.h"
#include "proxy/softgpu/rt/sanitizer.h"

extern "C" void cuspan_rt_resume();

namespace cuspan::softgpu {
namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
struct sigaction g_previous[NSIG];

// Size for the kernel's signal frame (3.5 KiB with AVX-512) and our handler.
constexpr std::size_t kSignalStackBytes = 64 * 1024;

// Read in the signal handler, so it must not be allocated at first use.
__attribute__((tls_model("initial-exec"))) thread_local FaultGuard* t_guard = nullptr;

// Performs the process's previous action.
void Chain(int signal, siginfo_t* info, void* context) {
  const struct sigaction& previous = g_previous[signal];
  if (previous.sa_flags & SA_SIGINFO) {
    previous.sa_sigaction(signal, info, context);
  } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    previous.sa_handler(signal);
  } else {
    // The instruction is executed again, without a handler.
    struct sigaction fallback = {};
    fallback.sa_handler = SIG_DFL;
    sigaction(signal, &fallback, nullptr);
  }
}

}  // namespace

struct FaultHandler {
  static bool MayStop(const FaultGuard* guard, std::uint64_t instruction) {
    return guard != nullptr && guard->armed_ && guard->stop_wanted_ != nullptr &&
           CodeRange::Contains(instruction) && guard->stop_wanted_(guard->stop_argument_);
  }

  CUSPAN_RT_SWITCHES static void Handle(int signal, siginfo_t* info, void* context) {
    FaultGuard* guard = t_guard;
    auto* registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
    if (signal == kStopSignal) {
      if (!MayStop(guard, static_cast<std::uint64_t>(registers[REG_RIP]))) return;
    } else if (guard == nullptr || !guard->armed_ || info->si_code <= 0) {
      // Signals sent by a process (si_code <= 0) are not faults.
      Chain(signal, info, context);
      return;
    }
    guard->armed_ = false;
    guard->fault_ = Fault{signal, info->si_addr, reinterpret_cast<void*>(registers[REG_RIP])};
    sanitizer::BeforeSwitch(nullptr, guard->thread_.low, guard->thread_.bytes,
                            guard->thread_.sanitizer_fiber);
    registers[REG_RSP] = reinterpret_cast<greg_t>(guard->thread_.stack_pointer);
    registers[REG_RIP] = reinterpret_cast<greg_t>(&cuspan_rt_resume);
    registers[REG_EFL] &= ~greg_t{0x400};  // The direction flag must be clear (ABI).
  }
};

void InstallFaultHandlers() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action = {};
    action.sa_sigaction = &FaultHandler::Handle;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    for (const int signal : kSignals) sigaction(signal, &action, &g_previous[signal]);
    action.sa_flags |= SA_RESTART;
    sigaction(kStopSignal, &action, nullptr);
  });
}

FaultGuard::FaultGuard() : thread_(Execution::OfThisThread()) {
  void* memory =
      mmap(nullptr, kSignalStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory != MAP_FAILED) {
    signal_stack_ = memory;
    stack_t stack = {};
    stack.ss_sp = memory;
    stack.ss_size = kSignalStackBytes;
    sigaltstack(&stack, nullptr);
  }
  t_guard = this;
}

FaultGuard::~FaultGuard() {
  t_guard = nullptr;
  if (signal_stack_ != nullptr) {
    stack_t stack = {};
    stack.ss_flags = SS_DISABLE;
    sigaltstack(&stack, nullptr);
    munmap(signal_stack_, kSignalStackBytes);
  }
}

CUSPAN_RT_SWITCHES bool FaultGuard::Enter(const Execution& to) {
  fault_ = Fault{};
  // The compiler must not move these stores across the switch: a signal may
  // come at any instruction of the fiber.
  armed_ = true;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  Switch(thread_, to);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  armed_ = false;
  return fault_.signal == 0;
}

CUSPAN_RT_SWITCHES void FaultGuard::Leave(Execution& from) { Switch(from, thread_); }

void FaultGuard::LeaveForGood() { SwitchAway(thread_); }

}  // namespace cuspan::softgpu

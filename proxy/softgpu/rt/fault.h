// Hardware faults in kernels become errors of a launch, not the end of the
// process: the signal handler sends the faulting worker back to where it
// entered the fiber, which is then abandoned.
#pragma once

#include <signal.h>

#include <atomic>

#include "proxy/softgpu/rt/fiber.h"

namespace cuspan::softgpu {

// Sent to a thread whose guarded code may have to be stopped. A real-time signal,
// which nothing else in the proxy uses.
inline const int kStopSignal = SIGRTMAX - 5;

struct Fault {
  int signal = 0;  // SIGSEGV, SIGBUS, SIGFPE, SIGILL or kStopSignal; 0: none.
  void* address = nullptr;
  void* instruction = nullptr;
};

// Installs the process's handlers, once; later calls do nothing. A signal that
// no guarded code raised goes to the handler that was there before.
void InstallFaultHandlers();

// Guards the fibers of one thread. The thread makes one and keeps it while it
// runs fibers; only that thread calls.
class FaultGuard {
 public:
  FaultGuard();
  ~FaultGuard();
  FaultGuard(const FaultGuard&) = delete;
  FaultGuard& operator=(const FaultGuard&) = delete;

  // Switches from this thread to the fiber `to` and returns when a fiber calls
  // Leave (true), or when the running fiber faults (false; fault() says how). A
  // fiber may switch to another in between.
  bool Enter(const Execution& to);
  // From a fiber: back to the thread. The second form leaves the fiber for good.
  void Leave(Execution& from);
  [[noreturn]] void LeaveForGood();
  // The stack pointer by which Enter goes on.
  void* home() const { return thread_.stack_pointer; }

  const Fault& fault() const { return fault_; }

  // What decides whether compiled code that gets kStopSignal is stopped, as if it had
  // faulted; null: nothing is. Called in the signal handler.
  void SetStopCondition(bool (*wanted)(const void*), const void* argument) {
    stop_wanted_ = nullptr;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    stop_argument_ = argument;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    stop_wanted_ = wanted;
  }

  // While one lives, a fault is a defect of ours and not the kernel's: our own
  // code is running on the fiber, perhaps with a lock.
  class Exempt {
   public:
    explicit Exempt(FaultGuard& guard) : guard_(guard) { guard_.armed_ = false; }
    ~Exempt() { guard_.armed_ = true; }
    Exempt(const Exempt&) = delete;
    Exempt& operator=(const Exempt&) = delete;

   private:
    FaultGuard& guard_;
  };

 private:
  friend struct FaultHandler;
  volatile bool armed_ = false;
  bool (*volatile stop_wanted_)(const void*) = nullptr;
  const void* volatile stop_argument_ = nullptr;
  Execution thread_;
  Fault fault_;
  void* signal_stack_ = nullptr;
};

}  // namespace cuspan::softgpu

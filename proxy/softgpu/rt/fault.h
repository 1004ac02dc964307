// Turns hardware faults in kernels into errors of a launch, instead of ending the process. The
// signal handler returns the faulting worker to the point of entering the fiber. The fiber is then
// abandoned.
#pragma once

#include <signal.h>

#include <atomic>

#include "proxy/softgpu/rt/fiber.h"

namespace cuspan::softgpu {

// Signal sent to a thread to stop its guarded code. A real-time signal, not used elsewhere in the
// proxy.
inline const int kStopSignal = SIGRTMAX - 5;

struct Fault {
  int signal = 0;  // SIGSEGV, SIGBUS, SIGFPE, SIGILL or kStopSignal; 0: none.
  void* address = nullptr;
  void* instruction = nullptr;
};

// Installs the process's handlers once; later calls do nothing. Signals not raised by guarded code
// go to the previous handler.
void InstallFaultHandlers();

// Guards the fibers of one thread. The thread creates one and keeps it while running fibers.
// Threads: only this one.
class FaultGuard {
 public:
  FaultGuard();
  ~FaultGuard();
  FaultGuard(const FaultGuard&) = delete;
  FaultGuard& operator=(const FaultGuard&) = delete;

  // Switches from this thread to the fiber `to`. Returns true when a fiber calls Leave, false when
  // the running fiber faults (see fault()). Fibers may switch to others in between.
  bool Enter(const Execution& to);
  // Switches from a fiber back to the thread. LeaveForGood ends the fiber.
  void Leave(Execution& from);
  [[noreturn]] void LeaveForGood();
  // Stack pointer for continuing Enter.
  void* home() const { return thread_.stack_pointer; }

  const Fault& fault() const { return fault_; }

  // Sets the condition to stop compiled code on kStopSignal, like a fault; null: never. Called in
  // the signal handler.
  void SetStopCondition(bool (*wanted)(const void*), const void* argument) {
    stop_wanted_ = nullptr;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    stop_argument_ = argument;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    stop_wanted_ = wanted;
  }

  // Marks our own code on a fiber, possibly holding a lock. While one exists, a fault is a defect
  // of our code and not the kernel's.
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

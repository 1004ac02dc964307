#include "interpose/client/thread_state.h"

#include <unistd.h>

#include <atomic>

namespace cuspan {
namespace {

std::uint32_t NextThreadNumber() {
  static std::atomic<std::uint32_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

// A plain pointer, so that a destructor of the program's own thread-local
// objects may still call us after our part of the thread is gone.
constinit thread_local ThreadState* state = nullptr;

// Ends the state with its thread. The main thread's stays: its thread-local
// objects go before the program's exit handlers run, which may call us.
struct Reaper {
  ~Reaper() {
    if (::gettid() == ::getpid()) return;
    delete state;
    state = nullptr;
  }
  void Arm() const {}
};

ThreadState& MakeState() {
  static thread_local const Reaper reaper;
  reaper.Arm();
  state = new ThreadState;
  return *state;
}

}  // namespace

ThreadState::ThreadState() : number(NextThreadNumber()) {}

ThreadState::~ThreadState() {
  for (const auto& call : at_end) call();
}

ThreadState& ThisThread() { return state != nullptr ? *state : MakeState(); }

}  // namespace cuspan

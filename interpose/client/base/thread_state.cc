#include "interpose/client/base/thread_state.h"

#include <unistd.h>

#include <atomic>

namespace cuspan {
namespace {

std::uint32_t NextThreadNumber() {
  static std::atomic<std::uint32_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

// Destroys the state with its thread. The main thread's state stays: its thread-local objects are
// destroyed before the program's exit handlers run, and these may call CUDA.
struct Reaper {
  ~Reaper() {
    if (::gettid() == ::getpid()) return;
    delete detail::this_thread;
    detail::this_thread = nullptr;
  }
  void Arm() const {}
};

}  // namespace

namespace detail {

constinit thread_local ThreadState* this_thread = nullptr;

ThreadState& MakeThreadState() {
  static thread_local const Reaper reaper;
  reaper.Arm();
  this_thread = new ThreadState;
  return *this_thread;
}

}  // namespace detail

ThreadState::ThreadState() : number(NextThreadNumber()) {}

ThreadState::~ThreadState() {
  for (const auto& call : at_end) call();
}

}  // namespace cuspan

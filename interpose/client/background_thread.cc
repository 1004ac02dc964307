#include "interpose/client/background_thread.h"

#include <pthread.h>
#include <signal.h>

#include <system_error>
#include <utility>

namespace cuspan {

namespace {

// A thread that is made while this lives inherits the mask. Faults of the thread itself stay open:
// blocked they would end the process, and a function of the program may touch memory whose pages
// come when they are touched (faults.h).
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP}) ::sigdelset(&all, fault);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace

std::thread StartBackgroundThread(const char* name, std::function<void()> body) {
  const SignalsBlocked blocked;
  std::thread thread(std::move(body));
  ::pthread_setname_np(thread.native_handle(), name);
  return thread;
}

void StartPlainThread(const char* name, void* (*body)(void*), void* argument) {
  const SignalsBlocked blocked;
  pthread_t thread{};
  if (const int error = ::pthread_create(&thread, nullptr, body, argument); error != 0)
    throw std::system_error(error, std::generic_category());  // As std::thread does.
  ::pthread_setname_np(thread, name);
  ::pthread_detach(thread);
}

}  // namespace cuspan

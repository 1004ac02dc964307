#include "interpose/client/base/background_thread.h"

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <utility>

#include "common/log.h"
#include "common/start_thread.h"

namespace cuspan {

namespace {

// Blocks signals while alive; a thread created meanwhile inherits the mask. Faults stay unblocked,
// since a blocked fault ends the process. A function of the program may touch memory with pages
// fetched by the fault handler (faults.h).
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

// Logs the first refusal only: every later call of the program may cause another.
void LogRefusal(const Status& status) {
  static std::atomic<bool> logged = false;
  if (!logged.exchange(true)) LogError("{}", status.message());
}

}  // namespace

std::thread StartBackgroundThread(const char* name, std::function<void()> body) {
  const SignalsBlocked blocked;
  Result<std::thread> thread = StartThread(name, std::move(body));
  if (thread.ok()) return std::move(*thread);
  LogRefusal(thread.status());
  return {};
}

bool StartPlainThread(const char* name, void* (*body)(void*), void* argument) {
  const SignalsBlocked blocked;
  pthread_t thread{};
  if (const int error = ::pthread_create(&thread, nullptr, body, argument); error != 0) {
    LogRefusal(NoThread(name, error));
    return false;
  }
  ::pthread_setname_np(thread, name);
  ::pthread_detach(thread);
  return true;
}

}  // namespace cuspan

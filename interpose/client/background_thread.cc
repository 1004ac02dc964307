#include "interpose/client/background_thread.h"

#include <pthread.h>
#include <signal.h>

#include <system_error>
#include <utility>

namespace cuspan {

namespace {

// A thread that is made while this lives inherits the mask.
class AllSignalsBlocked {
 public:
  AllSignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~AllSignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace

std::thread StartBackgroundThread(const char* name, std::function<void()> body) {
  const AllSignalsBlocked blocked;
  std::thread thread(std::move(body));
  ::pthread_setname_np(thread.native_handle(), name);
  return thread;
}

void StartPlainThread(const char* name, void* (*body)(void*), void* argument) {
  const AllSignalsBlocked blocked;
  pthread_t thread{};
  if (const int error = ::pthread_create(&thread, nullptr, body, argument); error != 0)
    throw std::system_error(error, std::generic_category());  // As std::thread does.
  ::pthread_setname_np(thread, name);
  ::pthread_detach(thread);
}

}  // namespace cuspan

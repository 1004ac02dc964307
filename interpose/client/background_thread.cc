#include "interpose/client/background_thread.h"

#include <pthread.h>
#include <signal.h>

#include <utility>

namespace cuspan {

std::thread StartBackgroundThread(const char* name, std::function<void()> body) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::move(body));  // Inherits the mask.
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::pthread_setname_np(thread.native_handle(), name);
  return thread;
}

}  // namespace cuspan

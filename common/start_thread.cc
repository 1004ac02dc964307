#include "common/start_thread.h"

#include <pthread.h>

#include <cstring>
#include <system_error>
#include <utility>

namespace cuspan {

Result<std::thread> StartThread(const char* name, std::function<void()> body) {
  try {
    std::thread thread(std::move(body));
    ::pthread_setname_np(thread.native_handle(), name);
    return thread;
  } catch (const std::system_error& error) {
    return NoThread(name, error.code().value());
  }
}

Status NoThread(std::string_view name, int error) {
  return Status::Exhausted(
      "the thread {} cannot be started: {}; raise the limits of processes and of memory "
      "(ulimit -u, ulimit -v, pids.max of the control group)",
      name, std::strerror(error));
}

}  // namespace cuspan

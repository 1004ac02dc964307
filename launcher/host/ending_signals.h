// Signals from the user to end a waiting command, as a descriptor. The command can then end its own
// processes first.
#pragma once

#include <signal.h>

#include "common/status.h"
#include "common/unique_fd.h"

namespace cuspan {

// SIGINT, SIGTERM, SIGHUP and SIGQUIT of this process, except ignored ones. Threads: one. At most
// one object at a time.
class EndingSignals {
 public:
  static Result<EndingSignals> Block();
  EndingSignals(EndingSignals&&) = default;
  EndingSignals& operator=(EndingSignals&&) = delete;
  // Restores the previous signal mask.
  ~EndingSignals();

  // Readable if a signal is pending.
  int fd() const { return fd_.get(); }
  // The pending signal, or 0.
  int Read();

 private:
  EndingSignals(UniqueFd fd, const sigset_t& before) : fd_(std::move(fd)), before_(before) {}
  UniqueFd fd_;
  sigset_t before_;
};

}  // namespace cuspan

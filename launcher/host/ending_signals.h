// The signals by which a user ends a command that waits, as a descriptor: so that what the command
// has started ends first.
#pragma once

#include <signal.h>

#include "common/status.h"
#include "common/unique_fd.h"

namespace cuspan {

// SIGINT, SIGTERM, SIGHUP and SIGQUIT of this process, those that it ignores aside. One thread, one
// at a time.
class EndingSignals {
 public:
  static Result<EndingSignals> Take();
  EndingSignals(EndingSignals&&) = default;
  EndingSignals& operator=(EndingSignals&&) = delete;
  // They do again what they did.
  ~EndingSignals();

  // Readable when one has come.
  int fd() const { return fd_.get(); }
  // The one that has come, or 0.
  int Read();

 private:
  EndingSignals(UniqueFd fd, const sigset_t& before) : fd_(std::move(fd)), before_(before) {}
  UniqueFd fd_;
  sigset_t before_;
};

}  // namespace cuspan

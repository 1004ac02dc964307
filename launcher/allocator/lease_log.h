// Lease log: the events of all runs' GPUs, for verification.
#pragma once

#include <string>
#include <string_view>

#include "common/unique_fd.h"

namespace cuspan {

// A file written by every agent. Each line is appended by one write, so lines of several processes
// never mix. Format:
//
//   SECONDS EVENT host=HOST gpu=GPU order=ORDER run=RUN user=USER
//
// SECONDS is the time since 1970 with nanoseconds; a missing value is '-'. Events:
//   arrive   the run has entered the host's queue
//   grant    the run has the GPU       (one line per GPU, written after locking it)
//   release  the run gives it back     (one line per GPU, written before unlocking it)
//   leave    the run has left the host's queue
//   lost     a dead run's lock on a GPU was found; run and user are unknown
// Events arrive, grant and lost are written with the host's queue locked, so a host's lines are in
// the order of the events. Runs are served by ORDER, their start time: of the runs in the queue,
// the one with the smallest ORDER (then RUN) comes first.
class LeaseLog {
 public:
  // Opens the file named by the settings, if any. If it cannot be opened, logs one warning.
  static LeaseLog FromSettings();
  // A log without a file: Add does nothing.
  LeaseLog() = default;

  struct Who {
    std::string host;
    std::string order;
    std::string run;
    std::string user;
  };
  void Add(std::string_view event, const Who& who, std::string_view gpu = "-") const;

 private:
  UniqueFd file_;
};

}  // namespace cuspan

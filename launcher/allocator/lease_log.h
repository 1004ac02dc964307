// The lease log: what happened to the GPUs of all runs, for whoever wants to check it.
#pragma once

#include <string>
#include <string_view>

#include "common/unique_fd.h"

namespace cuspan {

// A file to which every agent appends, one write a line, so that lines of several processes never
// mix. A line is
//
//   SECONDS EVENT host=HOST gpu=GPU order=ORDER run=RUN user=USER
//
// with the time since 1970 to the nanosecond, and '-' for what an event does not have. Events:
//   arrive   the run has come into the host's queue
//   grant    it has the GPU            (one line a GPU; written after its lock was had)
//   release  it gives the GPU back     (one line a GPU; written before its lock is given up)
//   leave    it has left the host's queue
//   lost     the lock of a GPU is found given up by a run that died; run and user are not known
// arrive, grant and lost are written while the host's queue is locked; so, of one host, they stand
// in the order in which they happened. Runs are served in the order of ORDER, which is when they
// were started: of all that have arrived and not left, those with a smaller one (then: a smaller
// RUN) first.
class LeaseLog {
 public:
  // The file that the settings name, if one. One that can not be opened is said once, as a warning.
  static LeaseLog FromSettings();
  // Writes nothing.
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

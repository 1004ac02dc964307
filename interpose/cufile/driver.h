// State common to all calls of cuFile: how often it was opened, its parameters and its statistics.
// There is no driver of the kernel behind it.
#pragma once

#include <atomic>

#include "interpose/cufile/parameters.h"
#include "interpose/cufile/results.h"
#include "interpose/cufile/statistics.h"

namespace cuspan::cufile {

// Threads: any. A table of the session.
class Driver {
 public:
  Driver() { SetStatisticsLevel(static_cast<int>(parameters_.size(kStatisticsLevel))); }

  long uses() const { return uses_.load(std::memory_order_acquire); }
  void Open() { uses_.fetch_add(1, std::memory_order_acq_rel); }
  // Opens it unless it is open.
  void OpenOnce() {
    long none = 0;
    uses_.compare_exchange_strong(none, 1, std::memory_order_acq_rel);
  }
  // False if it is not open.
  bool Close() {
    long now = uses();
    while (now > 0)
      if (uses_.compare_exchange_weak(now, now - 1, std::memory_order_acq_rel)) return true;
    return false;
  }
  Parameters& parameters() { return parameters_; }
  Statistics& statistics() { return statistics_; }
  // Levels set by cufile.json or a parameter count at once.
  void SetStatisticsLevel(int level) {
    statistics_.SetLevel(level);
    if (level > 0) statistics_.Start();
  }

 private:
  std::atomic<long> uses_{0};
  Parameters parameters_;
  Statistics statistics_;
};

// Answer for functions opening cuFile, as NVIDIA's do since release 1.1.
template <typename Body>
CallResult AnswerOpened(Body&& body) {
  return Answer([&](Session& session) {
    session.TableOf<Driver>().OpenOnce();
    return body(session);
  });
}

// Answer for functions in need of an open cuFile.
template <typename Body>
CallResult AnswerIfOpen(Body&& body) {
  return Answer([&](Session& session) -> CallResult {
    if (session.TableOf<Driver>().uses() == 0)
      return Refuse(kDriverNotInitialized, "cuFile is not open");
    return body(session);
  });
}

}  // namespace cuspan::cufile

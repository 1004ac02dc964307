// Times of event records on one axis. The client subtracts two of them, so elapsed times need no
// call.
#pragma once

#include <memory>
#include <utility>

#include "proxy/gpu/driver.h"

namespace cuspan::proxy {

struct EventRecordState;

// The driver reports only differences of times. Each record is timed against the one before, and
// its time is their sum. As a `float`, a difference has 24 significant bits; a sum over a long time
// would keep fewer of the latest short differences, so sums are `double`.
//
// Threads: one at a time.
class EventClock {
 public:
  explicit EventClock(const Driver& driver) : driver_(driver) {}

  // Gets the time of `record` in milliseconds since the first record timed; records may be earlier
  // than the ones before. The record has an event with times, and is complete. It is kept until the
  // next call. On failure, *milliseconds is the time of the record before.
  CUresult Time(std::shared_ptr<EventRecordState> record, double* milliseconds);

 private:
  const Driver& driver_;
  std::shared_ptr<EventRecordState> last_;
  double milliseconds_ = 0;  // Time of last_.
};

}  // namespace cuspan::proxy

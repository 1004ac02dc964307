// An observer of each wait of a thread for a device.
#pragma once

#include "protocol/channel/channel.h"

namespace cuspan {

// Any thread.
class WaitObserver {
 public:
  virtual ~WaitObserver() = default;
  // The calling thread begins to wait for a proxy; the statistics are its channel's. False inside
  // another wait: the outer one counts, and End is not due.
  virtual bool Begin(ChannelStatistics& statistics) = 0;
  virtual void End() = 0;
};

// The calling thread waits for a device while this lives. `observer` may be null.
class ObservedWait {
 public:
  ObservedWait(WaitObserver* observer, ChannelStatistics& statistics) {
    if (observer != nullptr && observer->Begin(statistics)) [[unlikely]]
      observer_ = observer;
  }
  ~ObservedWait() {
    if (observer_ != nullptr) [[unlikely]]
      observer_->End();
  }
  ObservedWait(const ObservedWait&) = delete;
  ObservedWait& operator=(const ObservedWait&) = delete;

 private:
  WaitObserver* observer_ = nullptr;
};

}  // namespace cuspan

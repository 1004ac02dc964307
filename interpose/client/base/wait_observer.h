// Observer of each wait of a thread for a device.
#pragma once

#include "protocol/channel/channel.h"

namespace cuspan {

// Threads: any.
class WaitObserver {
 public:
  virtual ~WaitObserver() = default;
  // Called when the calling thread begins to wait for a proxy. `statistics`: those of its channel.
  // False inside another wait: the outer wait counts, and End must not be called.
  virtual bool Begin(ChannelStatistics& statistics) = 0;
  virtual void End() = 0;
};

// Reports the calling thread as waiting for a device while alive. `observer` may be null.
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

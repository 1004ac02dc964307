// Asking about devices without using them: an observer of a device is a proxy without a context,
// on the device's node, that answers what the node's NVML says.
#pragma once

#include <map>
#include <memory>

#include "common/mutex.h"
#include "interpose/client/device_opener.h"
#include "protocol/channel/channel.h"

namespace cuspan {

// Any thread; one question at a time is asked.
class Observers {
 public:
  // Observers that `opener` opens ring `bell`.
  Observers(std::unique_ptr<DeviceOpener> opener, Bell bell)
      : opener_(std::move(opener)), bell_(std::move(bell)) {}
  Observers(const Observers&) = delete;

  // Waits for the answer, at the first question about a device also for its observer to start.
  // kUnavailable when there is none to be had, or it was lost; the next question starts another.
  Result<NvmlAnswer> Ask(std::uint32_t device, const NvmlAsk& ask);

 private:
  struct Observer {
    std::unique_ptr<Channel> channel;
    std::uint32_t process = 0;  // On the device's node.
  };
  Result<const Observer*> Open(std::uint32_t device) CUSPAN_REQUIRES(mutex_);

  Mutex mutex_;
  const std::unique_ptr<DeviceOpener> opener_;
  Bell bell_ CUSPAN_GUARDED_BY(mutex_);
  std::map<std::uint32_t, Observer> observers_ CUSPAN_GUARDED_BY(mutex_);
};

}  // namespace cuspan

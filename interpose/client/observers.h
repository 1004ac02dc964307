// Queries about devices without using them. An observer of a device is a proxy without a context on
// the device's node. It answers with the results of the node's NVML.
#pragma once

#include <map>
#include <memory>

#include "common/mutex.h"
#include "interpose/client/device_opener.h"
#include "protocol/channel/channel.h"

namespace cuspan {

// Threads: any; one query at a time.
class Observers {
 public:
  // Observers opened by `opener` ring `bell`.
  Observers(std::unique_ptr<DeviceOpener> opener, Bell bell)
      : opener_(std::move(opener)), bell_(std::move(bell)) {}
  Observers(const Observers&) = delete;

  // Waits for the answer, and at the first query about a device for the start of its observer.
  // kUnavailable if no observer can be started, or it was lost; the next query starts another.
  Result<NvmlAnswer> Ask(std::uint32_t device, const NvmlAsk& ask);

 private:
  struct Observer {
    std::unique_ptr<Channel> channel;
    std::uint32_t process = 0;  // Pid on the device's node.
  };
  Result<const Observer*> Open(std::uint32_t device) CUSPAN_REQUIRES(mutex_);

  Mutex mutex_;
  const std::unique_ptr<DeviceOpener> opener_;
  Bell bell_ CUSPAN_GUARDED_BY(mutex_);
  std::map<std::uint32_t, Observer> observers_ CUSPAN_GUARDED_BY(mutex_);
};

}  // namespace cuspan

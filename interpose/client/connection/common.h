// State shared by all connections of a session.
#pragma once

#include <atomic>
#include <cstdint>

#include "interpose/client/base/wait_observer.h"
#include "interpose/client/connection/copy_threads.h"
#include "interpose/client/connection/kernel_output.h"
#include "interpose/client/connection/lost_devices.h"

namespace cuspan {

// Outlives all connections. Threads: any.
struct ConnectionCommon {
  explicit ConnectionCommon(WaitObserver* observer) : wait_observer(observer) {}

  CopyThreads copy_in{CopyThreads::Way::kIn};
  CopyThreads copy_out{CopyThreads::Way::kOut};
  KernelOutput output;
  LostDevices lost_devices;
  WaitObserver* const wait_observer;  // May be null.
  std::atomic<int> connections{0};    // Number of connections, new and ending ones included.
  // Number of transfers from devices in flight, over all connections.
  std::atomic<int> receiving{0};
  // Version of the device memory blocks, incremented after some are freed: earlier lookups may be
  // stale.
  std::atomic<std::uint64_t> blocks_version{1};
};

}  // namespace cuspan

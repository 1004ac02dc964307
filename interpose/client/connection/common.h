// What all connections of a session share.
#pragma once

#include <atomic>
#include <cstdint>

#include "interpose/client/base/wait_observer.h"
#include "interpose/client/connection/copy_threads.h"
#include "interpose/client/connection/kernel_output.h"
#include "interpose/client/connection/lost_devices.h"

namespace cuspan {

// Outlives all connections. Any thread.
struct ConnectionCommon {
  explicit ConnectionCommon(WaitObserver* observer) : wait_observer(observer) {}

  CopyThreads copy_in{CopyThreads::Way::kIn};
  CopyThreads copy_out{CopyThreads::Way::kOut};
  KernelOutput output;
  LostDevices lost_devices;
  WaitObserver* const wait_observer;  // May be null.
  // Bytes are on their way from a device to this process: so many transfers of all connections.
  std::atomic<int> receiving{0};
  // Of blocks of device memory, after each end of some: what was found before may be no more.
  std::atomic<std::uint64_t> blocks_version{1};
};

}  // namespace cuspan

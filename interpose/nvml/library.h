// NVML in this process: the run's devices and their queries. It is independent of the CUDA session
// and does not start one, so a program may use it before forking. It counts all devices of the run
// available to the process, regardless of CUDA_VISIBLE_DEVICES.
#pragma once

#include <memory>
#include <vector>

#include "common/cancellation.h"
#include "common/mutex.h"
#include "interpose/client/observers.h"
#include "interpose/nvml/api.h"
#include "protocol/nvml/nvml.h"
#include "structs.gen.h"

namespace cuspan::nvml {

// Threads: any. Results are NVML's. Lives as long as the process.
class ManagementLibrary {
 public:
  static ManagementLibrary& Instance();

  // nvmlInit and nvmlShutdown. Calls are counted and must balance. The devices never change.
  int Start();
  int Stop();
  // Replaces the agent's devices and observers in tests. Called before the first Start.
  void StartWith(std::vector<DeviceDescription> devices, std::unique_ptr<Observers> observers);

  bool started() const;
  // Precondition for this and all following functions: started.
  const std::vector<DeviceDescription>& devices() const { return devices_; }
  // Device with this handle. Null if there is none.
  const DeviceDescription* Find(Device handle) const;
  static Device HandleOf(const DeviceDescription& device) {
    return const_cast<DeviceDescription*>(&device);
  }
  unsigned IndexOf(const DeviceDescription& device) const {
    return static_cast<unsigned>(&device - devices_.data());
  }

  // Queries NVML at the device's node. If it returns kSuccess, *values has the results.
  int Ask(const DeviceDescription& device, const char* function,
          std::vector<std::uint32_t> arguments, std::vector<std::uint64_t>* values);

 private:
  static void BeforeFork();
  static void AfterForkInParent();
  static void AfterForkInChild();

  mutable Mutex mutex_;
  unsigned started_ CUSPAN_GUARDED_BY(mutex_) = 0;
  bool known_ CUSPAN_GUARDED_BY(mutex_) = false;
  // Set once, before handles exist.
  std::vector<DeviceDescription> devices_;
  // Connected by the first query.
  std::shared_ptr<Observers> observers_ CUSPAN_GUARDED_BY(mutex_);
};

// body(ManagementLibrary&) → NVML result. Called if the library is started.
template <typename Body>
int Answer(Body&& body) {
  const CancellationOff cancellation;
  ManagementLibrary& library = ManagementLibrary::Instance();
  if (!library.started()) return kUninitialized;
  return body(library);
}

// Same, with body(ManagementLibrary&, const DeviceDescription&).
template <typename Body>
int AnswerAbout(Device handle, Body&& body) {
  return Answer([&](ManagementLibrary& library) -> int {
    const DeviceDescription* const device = library.Find(handle);
    return device != nullptr ? body(library, *device) : kInvalidArgument;
  });
}

}  // namespace cuspan::nvml

// NVML as this process has it: the run's devices, and what they are asked. It is apart from the
// CUDA session, as NVML is from CUDA: it begins none, so that a program may use it before it forks,
// and counts all devices that the run has for the process, whatever CUDA_VISIBLE_DEVICES says.
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

// Any thread. Results are NVML's. Lives as long as the process.
class ManagementLibrary {
 public:
  static ManagementLibrary& Instance();

  // nvmlInit and nvmlShutdown: as many of one as of the other. The devices stay the same.
  int Start();
  int Stop();
  // In a test, in place of those that the agent tells of and opens; before the first Start.
  void StartWith(std::vector<DeviceDescription> devices, std::unique_ptr<Observers> observers);

  bool started() const;
  // To be asked of one that was started, as all that follows.
  const std::vector<DeviceDescription>& devices() const { return devices_; }
  // The device with that handle; null when there is none.
  const DeviceDescription* Find(Device handle) const;
  static Device HandleOf(const DeviceDescription& device) {
    return const_cast<DeviceDescription*>(&device);
  }
  unsigned IndexOf(const DeviceDescription& device) const {
    return static_cast<unsigned>(&device - devices_.data());
  }

  // Asks the NVML of the device's node. kSuccess: *values is what it told.
  int Ask(const DeviceDescription& device, const char* function,
          std::vector<std::uint32_t> arguments, std::vector<std::uint64_t>* values);

 private:
  static void BeforeFork();
  static void AfterForkInParent();
  static void AfterForkInChild();

  mutable Mutex mutex_;
  unsigned started_ CUSPAN_GUARDED_BY(mutex_) = 0;
  bool known_ CUSPAN_GUARDED_BY(mutex_) = false;
  // Set once, before anybody has a handle.
  std::vector<DeviceDescription> devices_;
  // Begun by the first question.
  std::shared_ptr<Observers> observers_ CUSPAN_GUARDED_BY(mutex_);
};

// body(ManagementLibrary&) → a result, of a library that was started.
template <typename Body>
int Answer(Body&& body) {
  const CancellationOff cancellation;
  ManagementLibrary& library = ManagementLibrary::Instance();
  if (!library.started()) return kUninitialized;
  return body(library);
}

// body(ManagementLibrary&, const DeviceDescription&) → a result.
template <typename Body>
int AnswerAbout(Device handle, Body&& body) {
  return Answer([&](ManagementLibrary& library) -> int {
    const DeviceDescription* const device = library.Find(handle);
    return device != nullptr ? body(library, *device) : kInvalidArgument;
  });
}

}  // namespace cuspan::nvml

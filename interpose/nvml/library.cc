#include "interpose/nvml/library.h"

#include <pthread.h>

#include <utility>

#include "common/log.h"
#include "interpose/client/agent_connection.h"

namespace cuspan::nvml {

ManagementLibrary& ManagementLibrary::Instance() {
  // Never destroyed: the program may call NVML during exit.
  static ManagementLibrary* const library = [] {
    auto* const made = new ManagementLibrary;
    AgentConnection::HandleForks();
    ::pthread_atfork(BeforeFork, AfterForkInParent, AfterForkInChild);
    return made;
  }();
  return *library;
}

// A forked child inherits the list of devices. The connection to the observers stays the parent's.
void ManagementLibrary::BeforeFork() CUSPAN_NO_THREAD_SAFETY_ANALYSIS { Instance().mutex_.lock(); }
void ManagementLibrary::AfterForkInParent() CUSPAN_NO_THREAD_SAFETY_ANALYSIS {
  Instance().mutex_.unlock();
}
void ManagementLibrary::AfterForkInChild() CUSPAN_NO_THREAD_SAFETY_ANALYSIS {
  ManagementLibrary& library = Instance();
  // Not destroyed: another thread of the parent may have been using it.
  static_cast<void>(new std::shared_ptr<Observers>(std::move(library.observers_)));
  library.mutex_.unlock();
}

int ManagementLibrary::Start() {
  const MutexLock lock(mutex_);
  if (!known_) {
    Result<AgentConnection::Introduced> introduced = AgentConnection::IntroduceObserver();
    if (!introduced.ok()) {
      LogError("NVML has no devices: {}", introduced.status().message());
      return kDriverNotLoaded;
    }
    devices_ = std::move(introduced->devices);
    known_ = true;
  }
  ++started_;
  return kSuccess;
}

int ManagementLibrary::Stop() {
  std::shared_ptr<Observers> over;
  const MutexLock lock(mutex_);
  if (started_ == 0) return kUninitialized;
  // Queries in progress finish first: they hold a reference.
  if (--started_ == 0) over = std::move(observers_);
  return kSuccess;
}

void ManagementLibrary::StartWith(std::vector<DeviceDescription> devices,
                                  std::unique_ptr<Observers> observers) {
  const MutexLock lock(mutex_);
  devices_ = std::move(devices);
  observers_ = std::move(observers);
  known_ = true;
  ++started_;
}

bool ManagementLibrary::started() const {
  const MutexLock lock(mutex_);
  return started_ != 0;
}

const DeviceDescription* ManagementLibrary::Find(Device handle) const {
  for (const DeviceDescription& device : devices_)
    if (&device == handle) return &device;
  return nullptr;
}

int ManagementLibrary::Ask(const DeviceDescription& device, const char* function,
                           std::vector<std::uint32_t> arguments,
                           std::vector<std::uint64_t>* values) {
  std::shared_ptr<Observers> observers;
  {
    const MutexLock lock(mutex_);
    if (observers_ == nullptr) {
      Result<AgentConnection::Introduced> introduced = AgentConnection::IntroduceObserver();
      if (!introduced.ok()) {
        LogInfo("{}: {}", function, introduced.status().message());
        return kGpuIsLost;
      }
      observers_ =
          std::make_shared<Observers>(std::move(introduced->agent), std::move(introduced->bell));
    }
    observers = observers_;
  }
  NvmlAsk ask;
  ask.function = function;
  ask.arguments = std::move(arguments);
  Result<NvmlAnswer> answer = observers->Ask(IndexOf(device), ask);
  if (!answer.ok()) {
    LogInfo("{}: {}", function, answer.status().message());
    return kGpuIsLost;
  }
  *values = std::move(answer->values);
  return answer->result;
}

}  // namespace cuspan::nvml

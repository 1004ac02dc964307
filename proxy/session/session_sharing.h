// A session's sharing of its GPU with other runs.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>

#include "proxy/objects/kernel_table.h"
#include "proxy/session/shared_session.h"
#include "proxy/sharing/share_gate.h"
#include "proxy/streams/roles.h"

namespace cuspan::proxy {

// Threads: the receiving thread, unless noted otherwise.
class SessionSharing {
 public:
  // The session outlives it.
  explicit SessionSharing(DeviceSession& session) : session_(session) {}

  // From now on, the run may share the GPU with others. To be called before the first op.
  void Begin(std::unique_ptr<ShareSlot> slot) CUSPAN_REQUIRES(receiving_thread);
  // Notifies the other runs of the session's end, and stores the measured times.
  void End() CUSPAN_REQUIRES(receiving_thread);

  // Null if the GPU is not shared.
  ShareGate* gate() { return gate_.get(); }
  // Null without a gate, or without a file. Threads: the worker.
  KernelTable* kernel_table() { return kernel_table_.get(); }
  // True if other runs share the GPU now.
  bool SharesNow() const CUSPAN_REQUIRES(receiving_thread) {
    return gate_ != nullptr && gate_->sharing();
  }
  // True if work waiting for other runs may continue. Cheap; for Bell::Wait.
  bool MayGoOn() CUSPAN_REQUIRES(receiving_thread) { return gate_ != nullptr && gate_->MayGoOn(); }
  void GoOn() CUSPAN_REQUIRES(receiving_thread) {
    if (gate_ != nullptr) gate_->GoOn();
  }
  // Stores kernel times from time to time; called for measured kernels.
  void KeepKernelTimes() CUSPAN_REQUIRES(receiving_thread);

 private:
  void WriteKernelTimes() CUSPAN_REQUIRES(receiving_thread);

  DeviceSession& session_;
  std::unique_ptr<SharedSession> shared_;  // Null without a gate.
  std::unique_ptr<ShareGate> gate_;
  std::unique_ptr<KernelTable> kernel_table_;
  // True while kernel_table_ is being written.
  const std::shared_ptr<std::atomic<bool>> keeping_times_ =
      std::make_shared<std::atomic<bool>>(false);
};

}  // namespace cuspan::proxy

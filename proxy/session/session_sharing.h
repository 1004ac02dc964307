// A session's part in sharing its GPU with other runs.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>

#include "proxy/objects/kernel_table.h"
#include "proxy/session/shared_session.h"
#include "proxy/sharing/share_gate.h"
#include "proxy/streams/roles.h"

namespace cuspan::proxy {

// Threads: the receiving thread, unless said otherwise.
class SessionSharing {
 public:
  // The session outlives it.
  explicit SessionSharing(DeviceSession& session) : session_(session) {}

  // The run may share the GPU with others from now on. To be called before the first op.
  void Begin(std::unique_ptr<ShareSlot> slot) CUSPAN_REQUIRES(receiving_thread);
  // The session is over: tells the others, and keeps the measured times.
  void End() CUSPAN_REQUIRES(receiving_thread);

  // None without other runs on the GPU.
  ShareGate* gate() { return gate_.get(); }
  // The worker's; none without a gate or a place for it.
  KernelTable* kernel_table() { return kernel_table_.get(); }
  // Whether others share it.
  bool SharesNow() const CUSPAN_REQUIRES(receiving_thread) {
    return gate_ != nullptr && gate_->sharing();
  }
  // Whether work may go on after a wait for others. Cheap; for Bell::Wait.
  bool MayGoOn() CUSPAN_REQUIRES(receiving_thread) { return gate_ != nullptr && gate_->MayGoOn(); }
  void GoOn() CUSPAN_REQUIRES(receiving_thread) {
    if (gate_ != nullptr) gate_->GoOn();
  }
  // After measurements of kernels: keeps their times, now and then.
  void KeepKernelTimes() CUSPAN_REQUIRES(receiving_thread);

 private:
  void WriteKernelTimes() CUSPAN_REQUIRES(receiving_thread);

  DeviceSession& session_;
  std::unique_ptr<SharedSession> shared_;  // With the gate.
  std::unique_ptr<ShareGate> gate_;
  std::unique_ptr<KernelTable> kernel_table_;
  // Of kernel_table_: it is being written.
  const std::shared_ptr<std::atomic<bool>> keeping_times_ =
      std::make_shared<std::atomic<bool>>(false);
};

}  // namespace cuspan::proxy

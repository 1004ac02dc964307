// Makes a descriptor readable when a bell rings: the counterpart of BellRinger, for threads woken
// mostly by descriptors. Each wake-up through the helper thread costs some 50 µs.
#pragma once

#include <atomic>
#include <memory>
#include <thread>

#include "common/status.h"
#include "common/unique_fd.h"
#include "protocol/channel/bell.h"

namespace cuspan {

// Threads: one, sleeping on the descriptor.
class BellListener {
 public:
  // The bell outlives the listener. kExhausted if no thread can be created.
  static Result<std::unique_ptr<BellListener>> Start(Bell& bell);
  ~BellListener();
  BellListener(const BellListener&) = delete;

  // Readable from the first ring after Listen until Take.
  int fd() const { return rung_.get(); }
  void Consume();
  // Rings are noticed from now on. The caller checks for work once more after this call, then
  // sleeps.
  void Listen() { bell_.BeginSleep(); }
  // Called when the thread is awake: ringing then costs no system call.
  void Stop() { bell_.EndSleep(); }

 private:
  BellListener(Bell& bell, UniqueFd rung) : bell_(bell), rung_(std::move(rung)) {}
  void Loop(std::uint32_t seen);

  Bell& bell_;
  UniqueFd rung_;  // An eventfd.
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

}  // namespace cuspan

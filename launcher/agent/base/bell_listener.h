// Makes a descriptor readable when a bell rings: the counterpart of BellRinger, for who is woken by
// descriptors most of the time. Each hand-over from a helper's sleep costs some 50 µs.
#pragma once

#include <atomic>
#include <memory>
#include <thread>

#include "common/status.h"
#include "common/unique_fd.h"
#include "protocol/channel/bell.h"

namespace cuspan {

// For one thread, the one that sleeps on the descriptor.
class BellListener {
 public:
  // The bell outlives it. kExhausted where there is no thread for it.
  static Result<std::unique_ptr<BellListener>> Start(Bell& bell);
  ~BellListener();
  BellListener(const BellListener&) = delete;

  // Readable when the bell has rung since Listen; until Take.
  int fd() const { return rung_.get(); }
  void Take();
  // From now on a ring is heard. What it would be for is to be looked for after this.
  void Listen() { bell_.BeginSleep(); }
  // The thread is awake: who rings from now on pays for no wake.
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

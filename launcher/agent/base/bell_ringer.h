// Rings a bell when a descriptor is readable: a thread cannot sleep on a futex and epoll at once.
#pragma once

#include <atomic>
#include <memory>
#include <thread>

#include "common/status.h"
#include "common/unique_fd.h"
#include "protocol/channel/bell.h"

namespace cuspan {

// Threads: Watch and fired are for one thread, sleeping on the bell.
class BellRinger {
 public:
  // Both outlive the ringer; the descriptor stays open meanwhile. kExhausted if no thread can be
  // created.
  static Result<std::unique_ptr<BellRinger>> Start(Bell& bell, int fd);
  ~BellRinger();
  BellRinger(const BellRinger&) = delete;

  // Rings once, as soon as the descriptor is readable.
  void Watch();
  // True if the bell was rung since Watch.
  bool fired() const { return fired_.load(std::memory_order_acquire); }

 private:
  BellRinger(Bell& bell, int fd, UniqueFd orders)
      : bell_(bell), fd_(fd), orders_(std::move(orders)) {}
  void Loop();

  Bell& bell_;
  const int fd_;
  UniqueFd orders_;  // An eventfd; wakes the helper to read the two flags below.
  std::atomic<bool> watching_{false};
  std::atomic<bool> ending_{false};
  std::atomic<bool> fired_{false};
  std::thread thread_;
};

}  // namespace cuspan

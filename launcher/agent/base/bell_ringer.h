// Wakes who sleeps on a bell when a descriptor can be read: a futex and epoll have no common sleep.
#pragma once

#include <atomic>
#include <memory>
#include <thread>

#include "common/status.h"
#include "common/unique_fd.h"
#include "protocol/channel/bell.h"

namespace cuspan {

// Watch and fired are for one thread, the one that sleeps.
class BellRinger {
 public:
  // Both outlive it; the descriptor is open meanwhile. kExhausted where there is no thread for it.
  static Result<std::unique_ptr<BellRinger>> Start(Bell& bell, int fd);
  ~BellRinger();
  BellRinger(const BellRinger&) = delete;

  // Rings when the descriptor can be read, now or later; once.
  void Watch();
  // It has rung since Watch.
  bool fired() const { return fired_.load(std::memory_order_acquire); }

 private:
  BellRinger(Bell& bell, int fd, UniqueFd orders)
      : bell_(bell), fd_(fd), orders_(std::move(orders)) {}
  void Loop();

  Bell& bell_;
  const int fd_;
  UniqueFd orders_;  // An eventfd: there is something new of the two below.
  std::atomic<bool> watching_{false};
  std::atomic<bool> ending_{false};
  std::atomic<bool> fired_{false};
  std::thread thread_;
};

}  // namespace cuspan

#include "launcher/agent/base/bell_ringer.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <system_error>

namespace cuspan {

Result<std::unique_ptr<BellRinger>> BellRinger::Start(Bell& bell, int fd) {
  UniqueFd orders(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!orders.valid()) return Status::Exhausted("eventfd: {}", std::strerror(errno));
  std::unique_ptr<BellRinger> made(new BellRinger(bell, fd, std::move(orders)));
  try {
    made->thread_ = std::thread([at = made.get()] { at->Loop(); });
  } catch (const std::system_error& error) {
    return Status::Exhausted("the thread waking the agent cannot be started: {}", error.what());
  }
  return made;
}

BellRinger::~BellRinger() {
  if (!thread_.joinable()) return;
  ending_.store(true, std::memory_order_release);
  const std::uint64_t one = 1;
  static_cast<void>(!::write(orders_.get(), &one, sizeof one));
  thread_.join();
}

void BellRinger::Watch() {
  fired_.store(false, std::memory_order_relaxed);
  if (watching_.exchange(true, std::memory_order_acq_rel)) return;
  const std::uint64_t one = 1;
  static_cast<void>(!::write(orders_.get(), &one, sizeof one));
}

void BellRinger::Loop() {
  while (!ending_.load(std::memory_order_acquire)) {
    const bool watching = watching_.load(std::memory_order_acquire);
    pollfd waited[2] = {{orders_.get(), POLLIN, 0}, {watching ? fd_ : -1, POLLIN, 0}};
    ::poll(waited, 2, -1);
    if (waited[0].revents != 0) {
      std::uint64_t count = 0;
      static_cast<void>(!::read(orders_.get(), &count, sizeof count));
    }
    if (waited[1].revents == 0) continue;
    // Cleared before the ring: a woken thread may call Watch again at once.
    watching_.store(false, std::memory_order_release);
    fired_.store(true, std::memory_order_release);
    bell_.Ring();
  }
}

}  // namespace cuspan

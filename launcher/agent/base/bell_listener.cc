#include "launcher/agent/base/bell_listener.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <system_error>

namespace cuspan {

Result<std::unique_ptr<BellListener>> BellListener::Start(Bell& bell) {
  UniqueFd rung(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!rung.valid()) return Status::Exhausted("eventfd: {}", std::strerror(errno));
  std::unique_ptr<BellListener> made(new BellListener(bell, std::move(rung)));
  try {
    made->thread_ = std::thread([at = made.get(), seen = bell.rung()] { at->Loop(seen); });
  } catch (const std::system_error& error) {
    return Status::Exhausted("the thread for the agent's bell cannot be started: {}", error.what());
  }
  return made;
}

BellListener::~BellListener() {
  if (!thread_.joinable()) return;
  ending_.store(true, std::memory_order_release);
  bell_.BeginSleep();
  bell_.Ring();
  thread_.join();
}

void BellListener::Consume() {
  std::uint64_t count = 0;
  static_cast<void>(!::read(rung_.get(), &count, sizeof count));
}

void BellListener::Loop(std::uint32_t seen) {
  while (!ending_.load(std::memory_order_acquire)) {
    const std::uint32_t now = bell_.AwaitRung(seen);
    if (now == seen) continue;
    seen = now;
    const std::uint64_t one = 1;
    static_cast<void>(!::write(rung_.get(), &one, sizeof one));
  }
}

}  // namespace cuspan

#include "launcher/agent/base/poller.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

namespace cuspan {

Result<Poller> Poller::Create() {
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return Status::Exhausted("epoll_create1: {}", std::strerror(errno));
  return Poller(std::move(epoll));
}

Status Poller::Watch(int fd, Handler handler) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
    return Status::Exhausted("epoll_ctl: {}", std::strerror(errno));
  handlers_[fd] = std::make_shared<Handler>(std::move(handler));
  return Status::Ok();
}

void Poller::SetInterest(int fd, Interest interest) {
  epoll_event event{};
  event.events = interest == Interest::kRead    ? EPOLLIN
                 : interest == Interest::kWrite ? EPOLLOUT
                                                : 0U;
  event.data.fd = fd;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void Poller::Forget(int fd) {
  if (handlers_.erase(fd) != 0) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

Poller::TimerId Poller::After(std::chrono::milliseconds delay, Handler handler) {
  timers_[++last_timer_] = {Clock::now() + delay, std::move(handler)};
  return last_timer_;
}

void Poller::Cancel(TimerId timer) { timers_.erase(timer); }

int Poller::TimeoutFor(std::chrono::milliseconds limit) const {
  if (timers_.empty()) return limit.count() < 0 ? -1 : static_cast<int>(limit.count());
  Clock::time_point first = Clock::time_point::max();
  for (const auto& [id, timer] : timers_) first = std::min(first, timer.due);
  const auto left = std::max(std::chrono::ceil<std::chrono::milliseconds>(first - Clock::now()),
                             std::chrono::milliseconds(0));
  return static_cast<int>(limit.count() < 0 ? left.count() : std::min(left, limit).count());
}

void Poller::Wait(std::chrono::milliseconds limit) {
  epoll_event events[32];
  const int count = ::epoll_wait(epoll_.get(), events, 32, TimeoutFor(limit));
  for (int i = 0; i < count; ++i) {
    const auto known = handlers_.find(events[i].data.fd);
    if (known == handlers_.end()) continue;  // Removed by an earlier handler.
    const std::shared_ptr<Handler> handler = known->second;
    (*handler)();
  }
  if (!timers_.empty()) FireTimers();
}

void Poller::FireTimers() {
  const Clock::time_point now = Clock::now();
  std::vector<TimerId> due;
  for (const auto& [id, timer] : timers_)
    if (timer.due <= now) due.push_back(id);
  for (const TimerId id : due) {
    const auto timer = timers_.find(id);
    if (timer == timers_.end()) continue;
    const Handler handler = std::move(timer->second.handler);
    timers_.erase(timer);
    handler();
  }
}

}  // namespace cuspan

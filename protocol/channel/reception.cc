#include "protocol/channel/reception.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/descriptor_limit.h"
#include "common/log.h"

namespace cuspan {
namespace {

// Maximum events per call of Next: a flood of connections must not starve other work.
constexpr int kMaxEventsAtOnce = 8;
constexpr std::chrono::minutes kForeignReportInterval{1};
constexpr std::chrono::milliseconds kRest{100};
// Maximum number of descriptors a guest may have in flight to this process. No message has more.
constexpr std::size_t kMaxFdsOfGuest = 8;
// Event data: kListener, kTimer, or the number of a guest.
constexpr std::uint64_t kListener = 0;
constexpr std::uint64_t kTimer = 1;
constexpr std::uint64_t kFirstGuest = 2;

bool Add(int events, int fd, std::uint64_t what) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = what;
  return ::epoll_ctl(events, EPOLL_CTL_ADD, fd, &event) == 0;
}

UniqueFd Spare() { return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

}  // namespace

Result<Reception> Reception::Listen(const std::string& address) {
  CUSPAN_ASSIGN_OR_RETURN(ControlListener listener, ControlListener::Listen(address));
  UniqueFd events(::epoll_create1(EPOLL_CLOEXEC));
  UniqueFd timer(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  UniqueFd spare = Spare();
  if (!events.valid() || !timer.valid() || !spare.valid() ||
      !Add(events.get(), listener.fd(), kListener) || !Add(events.get(), timer.get(), kTimer))
    return Status::Exhausted("listening at '{}': {}{}", address, std::strerror(errno),
                             errno == EMFILE ? "; raise the limit of open files (ulimit -n)" : "");
  Reception reception(std::move(listener), std::move(events), std::move(timer), std::move(spare));
  reception.last_guest_ = kFirstGuest;
  return reception;
}

std::optional<Reception::Arrival> Reception::Next() {
  for (int turn = 0; turn < kMaxEventsAtOnce; ++turn) {
    epoll_event event{};
    if (::epoll_wait(events_.get(), &event, 1, 0) <= 0) return std::nullopt;
    std::optional<Arrival> arrival;
    if (event.data.u64 == kListener)
      arrival = Accept();
    else if (event.data.u64 == kTimer)
      HandleTimer();
    else if (const auto guest = guests_.find(event.data.u64); guest != guests_.end())
      arrival = Read(guest);
    if (arrival) return arrival;
  }
  return std::nullopt;
}

std::optional<Reception::Arrival> Reception::Accept() {
  Result<std::optional<UniqueFd>> accepted = listener_.TryAccept();
  if (accepted.status().code() == StatusCode::kRefused) {
    LogError("{}", accepted.status().message());
    Rest();
    return std::nullopt;
  }
  if (!accepted.ok()) {
    // Uses the descriptor freed by the oldest guest in the next iteration.
    if (guests_.empty())
      TurnAwayForWantOfDescriptors();
    else
      DropOldest();
    return std::nullopt;
  }
  if (!accepted->has_value()) return std::nullopt;
  if (const Status own = CheckPeer((*accepted)->get()); !own.ok()) {
    CountForeign(own);
    return std::nullopt;
  }
  if (guests_.size() >= std::clamp<std::size_t>(DescriptorLimit() / 4, 1, kMaxUnproven))
    DropOldest();
  const std::uint64_t number = ++last_guest_;
  const auto guest =
      guests_
          .emplace(number,
                   Guest{ControlSocket(std::move(**accepted), kMaxFdsOfGuest), Clock::now()})
          .first;
  // A process of the run has usually sent its message already.
  std::optional<Arrival> arrival = Read(guest);
  if (arrival || !guests_.contains(number)) return arrival;
  if (!Add(events_.get(), guest->second.socket.fd(), number)) {
    LogWarn("connection refused: {}", std::strerror(errno));
    guests_.erase(guest);
  } else if (guests_.size() == 1) {
    SetTimer();
  }
  return std::nullopt;
}

std::optional<Reception::Arrival> Reception::Read(std::map<std::uint64_t, Guest>::iterator guest) {
  ControlSocket& socket = guest->second.socket;
  Result<std::optional<ControlSocket::Message>> message = socket.TryReceive();
  if (message.ok() && !message->has_value()) return std::nullopt;
  // From here on the socket is not a guest: removes it from epoll.
  ::epoll_ctl(events_.get(), EPOLL_CTL_DEL, socket.fd(), nullptr);
  std::optional<Arrival> arrival;
  if (message.ok()) {
    arrival.emplace(Arrival{std::move(socket), std::move(**message)});
  } else if (message.status().code() != StatusCode::kUnavailable) {
    static_cast<void>(socket.Post(Refused{message.status().message()}));
    LogWarn("connection refused: {}", message.status().message());
  }
  guests_.erase(guest);
  return arrival;
}

void Reception::DropOldest() {
  LogWarn("closed an unidentified connection to make room for another: {} are open",
          guests_.size());
  guests_.erase(guests_.begin());
}

void Reception::TurnAwayForWantOfDescriptors() {
  const std::string reason = Format(
      "this process cannot accept more connections: all {} file descriptors are in use; raise the "
      "limit of open files (ulimit -n)",
      DescriptorLimit());
  LogError("{}", reason);
  spare_.Reset();
  Result<std::optional<UniqueFd>> accepted = listener_.TryAccept();
  const bool turned_away = accepted.ok();
  if (accepted.ok() && accepted->has_value()) {
    ControlSocket socket(std::move(**accepted));
    if (CheckPeer(socket.fd()).ok()) static_cast<void>(socket.Post(Refused{reason}));
  }
  // The accepted descriptor is closed at this point.
  accepted = std::optional<UniqueFd>();
  spare_ = Spare();
  if (spare_.valid() && turned_away) return;
  // The spare descriptor did not help.
  Rest();
}

// Pauses accepting: waiting connections stay in the listen queue, at no cost.
void Reception::Rest() {
  ::epoll_ctl(events_.get(), EPOLL_CTL_DEL, listener_.fd(), nullptr);
  rests_ = true;
  SetTimer();
}

void Reception::HandleTimer() {
  std::uint64_t rings = 0;
  [[maybe_unused]] const ssize_t read = ::read(timer_.get(), &rings, sizeof rings);
  if (rests_) {
    if (!spare_.valid()) spare_ = Spare();
    rests_ = !spare_.valid() || !Add(events_.get(), listener_.fd(), kListener);
  }
  const auto now = Clock::now();
  std::size_t late = 0;
  for (auto guest = guests_.begin();
       guest != guests_.end() && guest->second.came + kProofLimit <= now;) {
    // Keeps a guest with unread data: its message is in time, this process is late.
    pollfd sent{guest->second.socket.fd(), POLLIN, 0};
    if (::poll(&sent, 1, 0) == 1) {
      ++guest;
    } else {
      guest = guests_.erase(guest);
      ++late;
    }
  }
  if (late != 0)
    LogWarn("closed connections that did not identify themselves within {} s: {}",
            kProofLimit.count() / 1000, late);
  SetTimer();
}

void Reception::SetTimer() {
  std::optional<Clock::duration> next;
  if (!guests_.empty()) next = guests_.begin()->second.came + kProofLimit - Clock::now();
  if (rests_) next = std::min<Clock::duration>(next.value_or(kRest), kRest);
  itimerspec when{};
  if (next) {
    const auto wait = std::max<std::chrono::nanoseconds>(*next, std::chrono::milliseconds(1));
    when.it_value.tv_sec = static_cast<time_t>(wait / std::chrono::seconds(1));
    when.it_value.tv_nsec = static_cast<long>((wait % std::chrono::seconds(1)).count());
  }
  ::timerfd_settime(timer_.get(), 0, &when, nullptr);
}

void Reception::CountForeign(const Status& who) {
  ++foreign_;
  const auto now = Clock::now();
  if (foreign_reported_ != Clock::time_point() && now - foreign_reported_ < kForeignReportInterval)
    return;
  LogWarn("{}; connections from other users dropped: {}", who.message(), foreign_);
  foreign_reported_ = now;
  foreign_ = 0;
}

void Reception::Refuse(Arrival arrival, const std::string& reason) {
  static_cast<void>(arrival.socket.Post(Refused{reason}));
}

}  // namespace cuspan

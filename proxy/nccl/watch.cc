#include "proxy/nccl/watch.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <climits>
#include <cstring>
#include <system_error>
#include <utility>
#include <vector>

#include "common/log.h"
#include "proxy/nccl/watch_messages.h"

namespace cuspan::proxy {
namespace {

constexpr int kGraceMs = 1000;
constexpr std::chrono::milliseconds kTogether{100};

std::string HostName() {
  char name[HOST_NAME_MAX + 1] = "";
  ::gethostname(name, sizeof(name) - 1);
  return name;
}

}  // namespace

Result<std::shared_ptr<Watch>> Watch::Join(const LivenessAddress& place, int rank, int size,
                                           int version) {
  const net::Deadline deadline = std::chrono::steady_clock::now() + kWatchPatience;
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<net::Interrupt> interrupt,
                          net::Interrupt::Make("the communicator was aborted"));
  Result<UniqueFd> fd = net::Connect(place.address, *interrupt, deadline);
  if (!fd.ok())
    return Status::Unavailable(
        "the process that created the communicator's id is gone, or this host cannot reach it "
        "({}): NCCL_SOCKET_IFNAME selects the network",
        fd.status().message());
  NoticeSilence(fd->get());
  WatchArrival arrival;
  arrival.key = place.key;
  arrival.process = WatchProcess();
  arrival.rank = rank;
  arrival.size = size;
  arrival.version = version;
  arrival.host = WatchText(HostName());
  CUSPAN_RETURN_IF_ERROR(net::SendAll(fd->get(), &arrival, sizeof(arrival), *interrupt, deadline));
  std::shared_ptr<Watch> made(new Watch(std::move(*fd), std::move(interrupt)));
  try {
    made->thread_ = std::thread([at = made.get()] { at->Listen(); });
  } catch (const std::system_error& error) {
    return Status::Exhausted("cannot start a thread to watch ranks: {}", error.what());
  }
  return made;
}

Watch::~Watch() {
  Interrupt();
  if (thread_.joinable()) thread_.join();
  const WatchWord farewell;
  if (!gave_up_.load(std::memory_order_acquire))
    static_cast<void>(::send(fd_.get(), &farewell, sizeof(farewell), MSG_NOSIGNAL | MSG_DONTWAIT));
}

void Watch::Announce(const WatchGroup& group) {
  WatchWord word;
  word.kind = WatchWord::kAnnounce;
  word.group = group;
  // If the server is gone, lost ranks are not reported.
  static_cast<void>(net::SendAll(fd_.get(), &word, sizeof(word), *interrupt_,
                                 std::chrono::steady_clock::now() + kWatchPatience));
}

bool Watch::IsMember(const WatchGroup& group, int rank) {
  if (group.key == 0) return true;
  const MutexLock lock(mutex_);
  const auto known = groups_.find(group);
  return known != groups_.end() && known->second.contains(rank);
}

void Watch::Interrupt() {
  interrupt_->Raise();
  {
    const MutexLock lock(mutex_);
    if (failure_.ok()) failure_ = Status::Unavailable("the communicator was aborted");
  }
  changed_.notify_all();
}

void Watch::GiveUp() {
  gave_up_.store(true, std::memory_order_release);
  bool waits = false;
  {
    const MutexLock lock(mutex_);
    waits = !all_here_;
  }
  if (waits) Interrupt();
}

Status Watch::AwaitAll() {
  MutexLock lock(mutex_);
  // Ends when all ranks have arrived, when a rank or the server is lost, or by an abort.
  changed_.wait(lock, [this]() CUSPAN_REQUIRES(mutex_) { return all_here_ || !failure_.ok(); });
  return all_here_ ? Status::Ok() : failure_;
}

void Watch::Listen() {
  while (Receive()) {
  }
}

bool Watch::Receive() {
  WatchUpdate update;
  const Status received =
      net::ReceiveAll(fd_.get(), &update, sizeof(update), *interrupt_, net::kNever);
  if (interrupt_->raised()) return false;
  if (!received.ok()) {
    // The server's process has ended. If it had a rank, this rank is lost. Otherwise, only the
    // supervision ends.
    int rank = -1;
    {
      const MutexLock lock(mutex_);
      rank = host_rank_;
      if (!all_here_ && failure_.ok())
        failure_ = Status::Unavailable("the process that created the communicator's id is gone");
    }
    changed_.notify_all();
    if (rank >= 0) Notify(rank, Format("rank {} was lost", rank));
    return false;
  }
  const std::string text = update.text.Get();
  switch (update.kind) {
    case WatchUpdate::kAllHere: {
      const MutexLock lock(mutex_);
      all_here_ = true;
      host_rank_ = update.rank;
      break;
    }
    case WatchUpdate::kDisagree: {
      const MutexLock lock(mutex_);
      failure_ = Status::Invalid("{}", text);
      break;
    }
    case WatchUpdate::kLost: {
      {
        const MutexLock lock(mutex_);
        if (!all_here_) failure_ = Status::Unavailable("{}", text);
      }
      changed_.notify_all();
      Notify(update.rank, text);
      return true;
    }
    case WatchUpdate::kGrouped: {
      const MutexLock lock(mutex_);
      groups_[update.group].insert(update.rank);
      break;
    }
    case WatchUpdate::kLeft: {
      const MutexLock lock(mutex_);
      if (update.rank == host_rank_) host_rank_ = -1;
      break;
    }
  }
  changed_.notify_all();
  return true;
}

void Watch::Notify(int rank, const std::string& problem) {
  // Grace period: enough for NCCL to complete work not depending on the rank.
  pollfd ends{.fd = interrupt_->fd(), .events = POLLIN, .revents = 0};
  // Ranks lost together share one grace period.
  const auto now = std::chrono::steady_clock::now();
  if (now - last_grace_ > kTogether) ::poll(&ends, 1, kGraceMs);
  last_grace_ = std::chrono::steady_clock::now();
  const MutexLock notifying(notifying_);
  std::vector<Lost> listeners;
  {
    const MutexLock lock(mutex_);
    lost_.emplace(rank, problem);
    for (const auto& [number, listener] : listeners_) listeners.push_back(listener);
  }
  for (const Lost& listener : listeners) listener(rank, problem);
}

std::uint64_t Watch::OnLost(Lost lost) {
  const MutexLock notifying(notifying_);
  std::map<int, std::string> before;
  std::uint64_t number = 0;
  {
    const MutexLock lock(mutex_);
    number = next_listener_++;
    listeners_.emplace(number, lost);
    before = lost_;
  }
  for (const auto& [rank, problem] : before) lost(rank, problem);
  return number;
}

void Watch::Forget(std::uint64_t listener) {
  const MutexLock notifying(notifying_);
  const MutexLock lock(mutex_);
  listeners_.erase(listener);
}

}  // namespace cuspan::proxy

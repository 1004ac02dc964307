// Liveness server: one thread for each communicator. It ends when all ranks have left.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <optional>
#include <system_error>
#include <vector>

#include "common/log.h"
#include "common/settings.h"
#include "protocol/network/entrance.h"
#include "proxy/nccl/watch.h"
#include "proxy/nccl/watch_messages.h"

namespace cuspan::proxy {
namespace {

constexpr int kBacklog = 1024;
// Delay if no file descriptors are left for new connections.
constexpr std::chrono::milliseconds kTimeToRecover{100};

std::uint64_t RandomNumber() {
  std::uint64_t number = 0;
  while (::getrandom(&number, sizeof(number), 0) != sizeof(number) || number == 0) {
  }
  return number;
}

net::Deadline Soon() { return std::chrono::steady_clock::now() + kWatchPatience; }

std::string Release(int version) {
  return Format("{}.{}.{}", version / 10'000, version / 100 % 100, version % 100);
}

class LivenessServer {
 public:
  LivenessServer(net::Listener listener, std::uint64_t key, std::shared_ptr<net::Interrupt> never)
      : listener_(std::move(listener)), key_(key), never_(std::move(never)) {}

  void Serve() {
    net::Entrance entrance(listener_, *never_, sizeof(WatchArrival));
    while (!closed_ || !members_.empty()) {
      std::vector<int> watched;
      for (const Member& member : members_) watched.push_back(member.fd.get());
      Result<net::Entrance::Guest> guest = entrance.Next(watched, net::kNever);
      if (!guest.ok()) {
        // Out of file descriptors: wait until others are closed.
        if (!std::exchange(warned_, true))
          LogWarn("cannot accept ranks of a communicator yet: {}", guest.status().message());
        std::this_thread::sleep_for(kTimeToRecover);
      } else if (guest->fd.valid())
        Welcome(std::move(*guest));
      Listen();
    }
  }

 private:
  struct Member {
    UniqueFd fd;
    WatchArrival said;
    std::vector<std::byte> word;  // Part received so far.
  };

  void Welcome(net::Entrance::Guest guest) {
    const auto arrival = guest.As<WatchArrival>();
    if (arrival.key != key_) return;
    NoticeSilence(guest.fd.get());
    if (closed_) {
      // Too late, or too many ranks.
      WatchUpdate news = closing_;
      if (news.kind == WatchUpdate::kAllHere) {
        news.kind = WatchUpdate::kDisagree;
        news.text = WatchText("all ranks of the communicator have already joined");
      }
      static_cast<void>(net::SendAll(guest.fd.get(), &news, sizeof(news), *never_, Soon()));
      return;
    }
    members_.push_back({std::move(guest.fd), arrival, {}});
    if (std::exchange(known_, true) && arrival.size != size_)
      return Disagree(Format("rank {} on host {} reports {} ranks, others report {}", arrival.rank,
                             arrival.host.Get(), arrival.size, size_));
    size_ = arrival.size;
    if (arrival.process == WatchProcess()) own_rank_ = arrival.rank;
    if (members_.size() == static_cast<std::size_t>(size_)) CheckAll();
  }

  void CheckAll() {
    std::sort(members_.begin(), members_.end(), [](const Member& one, const Member& other) {
      return one.said.rank < other.said.rank;
    });
    for (std::size_t i = 1; i < members_.size(); ++i) {
      const WatchArrival& first = members_.front().said;
      const WatchArrival& other = members_[i].said;
      if (other.rank == members_[i - 1].said.rank)
        return Disagree(Format("two ranks have the number {}", other.rank));
      if (other.version != first.version)
        return Disagree(Format("host {} has NCCL {}, host {} has {}: select one with CUSPAN_NCCL",
                               first.host.Get(), Release(first.version), other.host.Get(),
                               Release(other.version)));
    }
    WatchUpdate news;
    news.kind = WatchUpdate::kAllHere;
    news.rank = own_rank_;
    Close(news);
  }

  void Disagree(const std::string& what) {
    WatchUpdate news;
    news.kind = WatchUpdate::kDisagree;
    news.text = WatchText(what);
    Close(news);
    members_.clear();
  }

  // Accepts no more ranks; `news` is the reason.
  void Close(const WatchUpdate& news) {
    closed_ = true;
    closing_ = news;
    Notify(news);
  }

  void Listen() {
    std::vector<WatchUpdate> news;
    std::erase_if(members_, [&](Member& member) {
      while (true) {
        const std::size_t before = member.word.size();
        member.word.resize(sizeof(WatchWord));
        const ssize_t bytes = ::recv(member.fd.get(), member.word.data() + before,
                                     sizeof(WatchWord) - before, MSG_DONTWAIT);
        member.word.resize(before + static_cast<std::size_t>(std::max<ssize_t>(bytes, 0)));
        if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return false;
        if (bytes > 0 && member.word.size() < sizeof(WatchWord)) continue;
        WatchUpdate one;
        one.rank = member.said.rank;
        WatchWord word;
        if (bytes > 0) {
          std::memcpy(&word, member.word.data(), sizeof(word));
          member.word.clear();
          one.group = word.group;
          one.kind = word.kind == WatchWord::kAnnounce ? WatchUpdate::kGrouped : WatchUpdate::kLeft;
        }
        // A rank leaving before all have arrived would block the others.
        if (bytes <= 0 || (one.kind == WatchUpdate::kLeft && !closed_)) {
          one.kind = WatchUpdate::kLost;
          one.text = WatchText(Format("rank {} on host {} was lost{}", member.said.rank,
                                      member.said.host.Get(),
                                      closed_ ? "" : " while the communicator was created"));
        }
        news.push_back(one);
        if (one.kind != WatchUpdate::kGrouped) return true;
      }
    });
    for (const WatchUpdate& one : news) {
      if (one.kind == WatchUpdate::kLost && !closed_)
        Close(one);
      else
        Notify(one);
    }
  }

  void Notify(const WatchUpdate& news) {
    for (const Member& member : members_) {
      // If sending fails, the rank is lost; the next Listen() finds the closed connection.
      if (!net::SendAll(member.fd.get(), &news, sizeof(news), *never_, Soon()).ok())
        ::shutdown(member.fd.get(), SHUT_RDWR);
    }
  }

  const net::Listener listener_;
  const std::uint64_t key_;
  const std::shared_ptr<net::Interrupt> never_;
  std::vector<Member> members_;
  bool known_ = false;   // size_ is known.
  bool closed_ = false;  // All have arrived, or it failed.
  bool warned_ = false;
  WatchUpdate closing_;
  int size_ = 0;
  int own_rank_ = -1;
};

}  // namespace

std::uint64_t WatchProcess() {
  static const std::uint64_t number = RandomNumber();
  return number;
}

void NoticeSilence(int fd) {
  const Result<std::uint64_t> wanted = SettingNumber(settings::kHeartbeat, 1, 3600);
  if (!wanted.ok()) return;  // "off".
  const int seconds = static_cast<int>(*wanted);
  const int on = 1;
  const int idle = std::max(seconds / 2, 1);
  const int interval = std::max(seconds / 6, 1);
  const int count = 3;
  const int limit = seconds * 1000;
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
  ::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit, sizeof(limit));
}

std::optional<LivenessAddress> ExtractLivenessAddress(RankId& id) {
  LivenessAddress place;
  std::uint8_t* const at = id.bytes.data() + kLivenessAddressAt;
  std::memcpy(&place, at, sizeof(place));
  if (place.magic != LivenessAddress::kMagic) return std::nullopt;
  std::memset(at, 0, sizeof(place));
  return place;
}

Status OpenLivenessServer(RankId& id) {
  const auto place_bytes = id.bytes.begin() + kLivenessAddressAt;
  if (std::any_of(place_bytes, id.bytes.end(), [](std::uint8_t byte) { return byte != 0; }))
    return Status::Unsupported("this release of NCCL uses all bytes of an id");
  CUSPAN_ASSIGN_OR_RETURN(net::Listener listener, net::Listener::Open(kBacklog));
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<net::Interrupt> never, net::Interrupt::Make(""));
  LivenessAddress place;
  place.magic = LivenessAddress::kMagic;
  place.key = RandomNumber();
  place.address = listener.address();
  std::memcpy(&*place_bytes, &place, sizeof(place));
  LogInfo("the ranks of a communicator connect to {}", net::Text(place.address));
  const auto server =
      std::make_shared<LivenessServer>(std::move(listener), place.key, std::move(never));
  try {
    // Never joined: it runs until all ranks have left, or the process ends.
    std::thread([server] { server->Serve(); }).detach();
  } catch (const std::system_error& error) {
    ExtractLivenessAddress(id);
    return Status::Exhausted("cannot start a thread to watch ranks: {}", error.what());
  }
  return Status::Ok();
}

}  // namespace cuspan::proxy

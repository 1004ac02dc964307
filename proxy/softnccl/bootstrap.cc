#include "proxy/softnccl/bootstrap.h"

#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <list>
#include <thread>
#include <type_traits>

#include "common/log.h"

namespace cuspan::softnccl {
namespace {

// For what a rank sends at once when it has connected.
constexpr std::chrono::seconds kTimeToSpeak{10};
// Ranks that come at the same time wait here until they are accepted, and then until they have said
// who they are; when there are more of these, the oldest is taken for a stranger.
constexpr int kBacklog = 1024;
constexpr std::size_t kMostVisitors = 1024;

// The bytes of a UniqueId.
struct Id {
  std::uint64_t key;
  Address root;
};
static_assert(sizeof(Id) <= sizeof(nccl::UniqueId) && std::is_trivially_copyable_v<Id>);

// A rank to the root.
struct Arrival {
  std::uint64_t key;
  std::int32_t rank, size;
  Address address;
};
// The root to each rank: whether the addresses of all follow, or who disagrees.
struct Introduction {
  std::uint64_t problem;
};
enum Problem : std::uint64_t { kNone = 0, kOtherSize = 1, kSameRank = 2 };
// A rank to another.
struct Greeting {
  std::uint64_t key;
  std::int64_t rank;
};

std::uint64_t RandomKey() {
  std::uint64_t key = 0;
  while (::getrandom(&key, sizeof(key), 0) != sizeof(key)) {
  }
  return key;
}

Deadline Soon() { return std::chrono::steady_clock::now() + kTimeToSpeak; }

// Introduces the ranks of one communicator to each other.
class Root {
 public:
  Root(Listener listener, std::uint64_t key) : listener_(std::move(listener)), key_(key) {}

  void Serve() {
    while (!complete()) {
      std::vector<pollfd> entries = {{.fd = listener_.fd(), .events = POLLIN, .revents = 0}};
      for (const Visitor& visitor : visitors_)
        entries.push_back({.fd = visitor.fd.get(), .events = POLLIN, .revents = 0});
      if (::poll(entries.data(), entries.size(), -1) < 0) continue;
      std::size_t at = 1;
      for (auto visitor = visitors_.begin(); visitor != visitors_.end();) {
        const bool spoke = entries[at++].revents != 0;
        visitor = spoke && !Hear(*visitor) ? visitors_.erase(visitor) : std::next(visitor);
      }
      if (entries[0].revents != 0) {
        Result<UniqueFd> fd = listener_.Accept(interrupt_, Soon());
        if (!fd.ok()) continue;
        if (visitors_.size() == kMostVisitors) visitors_.pop_front();
        visitors_.emplace_back(Visitor{std::move(*fd)});
      }
    }
    for (Rank& rank : ranks_) {
      const Introduction introduction{kNone};
      if (!SendAll(rank.fd.get(), &introduction, sizeof(introduction), interrupt_, Soon()).ok())
        continue;
      for (const Rank& other : ranks_)
        if (!SendAll(rank.fd.get(), &other.address, sizeof(other.address), interrupt_, Soon()).ok())
          break;
    }
  }

 private:
  // Has connected, and not yet said all of who it is.
  struct Visitor {
    UniqueFd fd;
    std::size_t received = 0;
    Arrival arrival{};
  };
  struct Rank {
    UniqueFd fd;
    Address address;
  };

  bool complete() const { return !ranks_.empty() && arrived_ == ranks_.size(); }

  // Whether the visitor is to stay among those who have not said all.
  bool Hear(Visitor& visitor) {
    auto* const to = reinterpret_cast<std::byte*>(&visitor.arrival) + visitor.received;
    const ssize_t bytes =
        ::recv(visitor.fd.get(), to, sizeof(Arrival) - visitor.received, MSG_DONTWAIT);
    if (bytes <= 0) return bytes < 0 && (errno == EAGAIN || errno == EINTR);
    visitor.received += static_cast<std::size_t>(bytes);
    if (visitor.received < sizeof(Arrival)) return true;
    Admit(visitor);
    return false;
  }

  void Admit(Visitor& visitor) {
    const Arrival& arrival = visitor.arrival;
    if (arrival.key != key_ || arrival.size < 1 || arrival.size > kMostRanks || arrival.rank < 0 ||
        arrival.rank >= arrival.size)
      return;
    if (ranks_.empty()) ranks_.resize(static_cast<std::size_t>(arrival.size));
    Problem problem = kNone;
    if (ranks_.size() != static_cast<std::size_t>(arrival.size))
      problem = kOtherSize;
    else if (ranks_[arrival.rank].fd.valid())
      problem = kSameRank;
    if (problem != kNone) {
      const Introduction refusal{problem};
      [[maybe_unused]] const Status told =
          SendAll(visitor.fd.get(), &refusal, sizeof(refusal), interrupt_, Soon());
      return;
    }
    ranks_[arrival.rank] = {std::move(visitor.fd), arrival.address};
    ++arrived_;
  }

  const Listener listener_;
  const std::uint64_t key_;
  Interrupt interrupt_;  // Never raised: it ends with the process.
  std::list<Visitor> visitors_;
  std::vector<Rank> ranks_;
  std::size_t arrived_ = 0;
};

// Each rank connects to those before it, and is connected to by those behind.
Result<Mesh> ConnectAll(const Listener& listener, const std::vector<Address>& addresses,
                        std::uint64_t key, int rank, std::shared_ptr<Interrupt> interrupt) {
  std::vector<UniqueFd> links(addresses.size());
  for (int other = 0; other < rank; ++other) {
    CUSPAN_ASSIGN_OR_RETURN(links[other], Connect(addresses[other], *interrupt, Soon()));
    const Greeting greeting{key, rank};
    CUSPAN_RETURN_IF_ERROR(
        SendAll(links[other].get(), &greeting, sizeof(greeting), *interrupt, Soon()));
  }
  for (int missing = static_cast<int>(addresses.size()) - 1 - rank; missing > 0;) {
    CUSPAN_ASSIGN_OR_RETURN(UniqueFd fd, listener.Accept(*interrupt, kNever));
    Greeting greeting{};
    const Status heard = ReceiveAll(fd.get(), &greeting, sizeof(greeting), *interrupt, Soon());
    if (interrupt->raised()) return heard;
    const bool is_expected = heard.ok() && greeting.key == key && greeting.rank > rank &&
                             greeting.rank < static_cast<std::int64_t>(addresses.size()) &&
                             !links[greeting.rank].valid();
    if (!is_expected) continue;
    links[greeting.rank] = std::move(fd);
    --missing;
  }
  return Mesh(rank, std::move(links), std::move(interrupt));
}

}  // namespace

Result<nccl::UniqueId> MakeUniqueId() {
  CUSPAN_ASSIGN_OR_RETURN(Listener listener, Listener::Open(kBacklog));
  const Id id{RandomKey(), listener.address()};
  std::thread([root = std::make_shared<Root>(std::move(listener), id.key)] {
    root->Serve();
  }).detach();
  nccl::UniqueId made{};
  std::memcpy(made.bytes, &id, sizeof(id));
  return made;
}

Result<Mesh> JoinById(const nccl::UniqueId& unique_id, int rank, int size,
                      std::shared_ptr<Interrupt> interrupt) {
  Id id;
  std::memcpy(&id, unique_id.bytes, sizeof(id));
  CUSPAN_ASSIGN_OR_RETURN(const Listener listener, Listener::Open(size));
  CUSPAN_ASSIGN_OR_RETURN(const UniqueFd root, Connect(id.root, *interrupt, Soon()));
  const Arrival arrival{id.key, rank, size, listener.address()};
  CUSPAN_RETURN_IF_ERROR(SendAll(root.get(), &arrival, sizeof(arrival), *interrupt, Soon()));
  Introduction introduction{};
  CUSPAN_RETURN_IF_ERROR(
      ReceiveAll(root.get(), &introduction, sizeof(introduction), *interrupt, kNever));
  if (introduction.problem == kOtherSize)
    return Status::Invalid("rank {}: others with this id say that there are not {} ranks", rank,
                           size);
  if (introduction.problem != kNone)
    return Status::Invalid("there are two ranks {} with the same id", rank);
  std::vector<Address> addresses(static_cast<std::size_t>(size));
  CUSPAN_RETURN_IF_ERROR(ReceiveAll(root.get(), addresses.data(),
                                    addresses.size() * sizeof(Address), *interrupt, Soon()));
  return ConnectAll(listener, addresses, id.key, rank, std::move(interrupt));
}

Invitation Invite(const Listener& listener) { return {listener.address(), RandomKey()}; }

Result<Mesh> JoinInvited(const Listener& listener, const std::vector<Invitation>& ranks, int rank,
                         std::shared_ptr<Interrupt> interrupt) {
  std::vector<Address> addresses;
  for (const Invitation& one : ranks) addresses.push_back(one.address);
  return ConnectAll(listener, addresses, ranks.front().key, rank, std::move(interrupt));
}

}  // namespace cuspan::softnccl

#include "proxy/softnccl/bootstrap.h"

#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>

#include "protocol/network/entrance.h"

namespace cuspan::softnccl {
namespace {

// Timeout of a step not waiting for other ranks.
constexpr std::chrono::seconds kTimeToSpeak{10};
// Timeout of the connections between all ranks, once all are known.
constexpr std::chrono::seconds kTimeToMeet{60};
// Maximum number of ranks waiting to be accepted.
constexpr int kBacklog = 1024;
// Pause after a failed accept, e.g. without free descriptors.
constexpr std::chrono::milliseconds kTimeToRecover{10};

// Contents of a UniqueId.
struct Id {
  std::uint64_t key;
  net::Address root;
};
static_assert(sizeof(Id) <= sizeof(nccl::UniqueId) && std::is_trivially_copyable_v<Id>);

// Message of a rank to the root.
struct Arrival {
  std::uint64_t key;
  std::int32_t rank, size;
  net::Address address;
};
// Message of the root to each rank. After kNoProblem the addresses of all ranks follow.
struct Introduction {
  std::uint64_t problem;
};
enum Problem : std::uint64_t { kNoProblem = 0, kOtherSize = 1, kSameRank = 2 };
// Message of a rank to another.
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

net::Deadline In(std::chrono::seconds time) { return std::chrono::steady_clock::now() + time; }
net::Deadline Soon() { return In(kTimeToSpeak); }

// Introduces the ranks of one communicator to each other.
class Root {
 public:
  Root(net::Listener listener, std::uint64_t key, std::shared_ptr<net::Interrupt> never)
      : listener_(std::move(listener)), key_(key), never_(std::move(never)) {}

  void Serve() {
    net::Entrance entrance(listener_, *never_, sizeof(Arrival));
    while (!complete()) {
      std::vector<int> arrived;
      for (const Rank& rank : ranks_)
        if (rank.fd.valid()) arrived.push_back(rank.fd.get());
      Result<net::Entrance::Guest> guest = entrance.Next(arrived, net::kNever);
      if (!guest.ok())
        std::this_thread::sleep_for(kTimeToRecover);
      else if (guest->fd.valid())
        Admit(std::move(guest->fd), guest->As<Arrival>());
      else
        ForgetGone();
    }
    for (Rank& rank : ranks_) {
      const Introduction introduction{kNoProblem};
      if (!net::SendAll(rank.fd.get(), &introduction, sizeof(introduction), *never_, Soon()).ok())
        continue;
      for (const Rank& other : ranks_)
        if (!net::SendAll(rank.fd.get(), &other.address, sizeof(other.address), *never_, Soon())
                 .ok())
          break;
    }
  }

 private:
  struct Rank {
    UniqueFd fd;
    net::Address address;
  };

  bool complete() const {
    return !ranks_.empty() && std::all_of(ranks_.begin(), ranks_.end(),
                                          [](const Rank& rank) { return rank.fd.valid(); });
  }

  // Removes ranks with closed connections; they may come again. A waiting rank sends nothing more.
  void ForgetGone() {
    for (Rank& rank : ranks_) {
      std::byte more{};
      const bool waits = rank.fd.valid() && ::recv(rank.fd.get(), &more, 1, MSG_DONTWAIT) < 0 &&
                         (errno == EAGAIN || errno == EINTR);
      if (!waits) rank.fd.Reset();
    }
    // If no rank is left, the next arrival defines the size again.
    if (std::none_of(ranks_.begin(), ranks_.end(),
                     [](const Rank& rank) { return rank.fd.valid(); }))
      ranks_.clear();
  }

  void Admit(UniqueFd fd, const Arrival& arrival) {
    if (arrival.key != key_ || arrival.size < 1 || arrival.size > kMaxRanks || arrival.rank < 0 ||
        arrival.rank >= arrival.size)
      return;
    if (ranks_.empty()) ranks_.resize(static_cast<std::size_t>(arrival.size));
    Problem problem = kNoProblem;
    if (ranks_.size() != static_cast<std::size_t>(arrival.size))
      problem = kOtherSize;
    else if (ranks_[arrival.rank].fd.valid())
      problem = kSameRank;
    if (problem == kNoProblem) {
      ranks_[arrival.rank] = {std::move(fd), arrival.address};
      return;
    }
    const Introduction refusal{problem};
    [[maybe_unused]] const Status told =
        net::SendAll(fd.get(), &refusal, sizeof(refusal), *never_, Soon());
  }

  const net::Listener listener_;
  const std::uint64_t key_;
  const std::shared_ptr<net::Interrupt> never_;  // Never raised: the thread ends with the process.
  std::vector<Rank> ranks_;
};

// Connects to all lower ranks, and accepts connections of all higher ranks.
Result<Mesh> ConnectAll(const net::Listener& listener, const std::vector<net::Address>& addresses,
                        std::uint64_t key, int rank, std::shared_ptr<net::Interrupt> interrupt) {
  const net::Deadline deadline = In(kTimeToMeet);
  std::vector<UniqueFd> links(addresses.size());
  for (int other = 0; other < rank; ++other) {
    CUSPAN_ASSIGN_OR_RETURN(links[other], net::Connect(addresses[other], *interrupt, deadline));
    const Greeting greeting{key, rank};
    CUSPAN_RETURN_IF_ERROR(
        net::SendAll(links[other].get(), &greeting, sizeof(greeting), *interrupt, deadline));
  }
  net::Entrance entrance(listener, *interrupt, sizeof(Greeting));
  for (int missing = static_cast<int>(addresses.size()) - 1 - rank; missing > 0;) {
    CUSPAN_ASSIGN_OR_RETURN(net::Entrance::Guest guest, entrance.Next({}, deadline));
    const auto greeting = guest.As<Greeting>();
    const bool is_expected = greeting.key == key && greeting.rank > rank &&
                             greeting.rank < static_cast<std::int64_t>(addresses.size()) &&
                             !links[greeting.rank].valid();
    if (!is_expected) continue;
    links[greeting.rank] = std::move(guest.fd);
    --missing;
  }
  return Mesh(rank, std::move(links), std::move(interrupt));
}

}  // namespace

Result<nccl::UniqueId> MakeUniqueId() {
  CUSPAN_ASSIGN_OR_RETURN(net::Listener listener, net::Listener::Open(kBacklog));
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<net::Interrupt> never, net::Interrupt::Make(""));
  const Id id{RandomKey(), listener.address()};
  const auto root = std::make_shared<Root>(std::move(listener), id.key, std::move(never));
  try {
    std::thread([root] { root->Serve(); }).detach();
  } catch (const std::system_error& error) {
    return Status::Exhausted("no thread can be started: {}", error.what());
  }
  nccl::UniqueId made{};
  std::memcpy(made.bytes, &id, sizeof(id));
  return made;
}

Result<Mesh> JoinById(const nccl::UniqueId& unique_id, int rank, int size,
                      std::shared_ptr<net::Interrupt> interrupt) {
  Id id;
  std::memcpy(&id, unique_id.bytes, sizeof(id));
  CUSPAN_ASSIGN_OR_RETURN(const net::Listener listener, net::Listener::Open(size));
  CUSPAN_ASSIGN_OR_RETURN(const UniqueFd root, net::Connect(id.root, *interrupt, Soon()));
  const Arrival arrival{id.key, rank, size, listener.address()};
  CUSPAN_RETURN_IF_ERROR(net::SendAll(root.get(), &arrival, sizeof(arrival), *interrupt, Soon()));
  Introduction introduction{};
  CUSPAN_RETURN_IF_ERROR(
      net::ReceiveAll(root.get(), &introduction, sizeof(introduction), *interrupt, net::kNever));
  if (introduction.problem == kOtherSize)
    return Status::Invalid(
        "rank {}: other ranks with this id report another number of ranks than {}", rank, size);
  if (introduction.problem != kNoProblem)
    return Status::Invalid("two ranks have the number {} and the same id", rank);
  std::vector<net::Address> addresses(static_cast<std::size_t>(size));
  CUSPAN_RETURN_IF_ERROR(net::ReceiveAll(
      root.get(), addresses.data(), addresses.size() * sizeof(net::Address), *interrupt, Soon()));
  return ConnectAll(listener, addresses, id.key, rank, std::move(interrupt));
}

Invitation Invite(const net::Listener& listener) { return {listener.address(), RandomKey()}; }

Result<Mesh> JoinInvited(const net::Listener& listener, const std::vector<Invitation>& ranks,
                         int rank, std::shared_ptr<net::Interrupt> interrupt) {
  std::vector<net::Address> addresses;
  for (const Invitation& one : ranks) addresses.push_back(one.address);
  return ConnectAll(listener, addresses, ranks.front().key, rank, std::move(interrupt));
}

}  // namespace cuspan::softnccl

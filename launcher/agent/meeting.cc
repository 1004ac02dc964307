#include "launcher/agent/meeting.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "common/log.h"
#include "ops.gen.h"
#include "protocol/network/entrance.h"

namespace cuspan {
namespace {

struct Join {
  std::uint64_t table_hash;
  Key128 secret;
  std::uint32_t rank;
  std::uint32_t bytes;
};
struct Answer {
  std::uint64_t token;
  std::uint32_t agents;  // 0: refused.
  std::uint32_t bytes;
};

// Of an address, or of one of the messages before the relay starts: inventories.
constexpr std::uint32_t kMostBytes = 64 << 20;
// For what an agent that has come has to say.
constexpr std::chrono::seconds kPatience{10};

net::Deadline Soon() { return std::chrono::steady_clock::now() + kPatience; }

// A host that is switched off says nothing more, and before the agents have met nobody else looks.
void KeepAlive(int fd) {
  const auto set = [fd](int level, int name, int value) {
    ::setsockopt(fd, level, name, &value, sizeof value);
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 60);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 15);
  set(IPPROTO_TCP, TCP_KEEPCNT, 4);
}

std::uint64_t RandomToken() {
  std::uint64_t number = 0;
  while (::getrandom(&number, sizeof(number), 0) != sizeof(number) || number == 0) {
  }
  return number;
}

Status SendBlob(int fd, Meeting::Address blob, const net::Interrupt& interrupt) {
  if (blob.size() > kMostBytes)
    return Status::Invalid("a message of {} bytes to another agent is too long", blob.size());
  const auto bytes = static_cast<std::uint32_t>(blob.size());
  CUSPAN_RETURN_IF_ERROR(net::SendAll(fd, &bytes, sizeof bytes, interrupt, net::kNever));
  return net::SendAll(fd, blob.data(), blob.size(), interrupt, net::kNever);
}

Result<Meeting::Blob> ReceiveBytes(int fd, std::uint32_t bytes, const net::Interrupt& interrupt,
                                   net::Deadline deadline) {
  if (bytes > kMostBytes)
    return Status::Invalid("a message of {} bytes from another agent is too long", bytes);
  Meeting::Blob blob(bytes);
  CUSPAN_RETURN_IF_ERROR(net::ReceiveAll(fd, blob.data(), bytes, interrupt, deadline));
  return blob;
}

Result<Meeting::Blob> ReceiveBlob(int fd, const net::Interrupt& interrupt, net::Deadline deadline) {
  std::uint32_t bytes = 0;
  CUSPAN_RETURN_IF_ERROR(net::ReceiveAll(fd, &bytes, sizeof bytes, interrupt, deadline));
  return ReceiveBytes(fd, bytes, interrupt, deadline);
}

void Refuse(int fd, std::string_view reason, const net::Interrupt& interrupt) {
  const Answer answer{0, 0, static_cast<std::uint32_t>(reason.size())};
  if (net::SendAll(fd, &answer, sizeof answer, interrupt, Soon()).ok())
    static_cast<void>(net::SendAll(fd, reason.data(), reason.size(), interrupt, Soon()));
}

// The first of them that can be reached.
Result<UniqueFd> ConnectToOne(std::span<const net::Address> places, const net::Interrupt& never,
                              net::Deadline deadline) {
  Status failure = Status::Invalid("no address of the home agent is known");
  // In turn: what can not be reached says so at once, or takes a share of the time.
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto now = std::chrono::steady_clock::now();
    const net::Deadline share = now + (deadline - now) / static_cast<int>(places.size() - i);
    Result<UniqueFd> connected = net::Connect(places[i], never, share);
    if (connected.ok()) return connected;
    failure = connected.status();
  }
  return failure;
}

}  // namespace

Result<Meeting> Meeting::Hold(const net::Listener& listener, const Key128& secret,
                              std::uint32_t agents, Address own, std::span<const int> watched,
                              const net::Interrupt& interrupt, net::Deadline deadline) {
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<net::Interrupt> never, net::Interrupt::Make(""));
  Meeting meeting(0, std::move(never));
  meeting.token_ = RandomToken();
  meeting.addresses_.resize(agents);
  meeting.connections_.resize(agents);
  meeting.addresses_[0].assign(own.begin(), own.end());
  net::Entrance entrance(listener, interrupt, sizeof(Join));
  for (std::uint32_t missing = agents - 1; missing != 0;) {
    CUSPAN_ASSIGN_OR_RETURN(net::Entrance::Guest guest, entrance.Next(watched, deadline));
    if (!guest.fd.valid()) return Status::Unavailable("an agent has ended before it came");
    const auto join = guest.As<Join>();
    if (!SameSecret(join.secret, secret)) {
      LogWarn("somebody who is not of this run tried to connect as an agent");
      continue;
    }
    const int fd = guest.fd.get();
    if (join.table_hash != kOpTableHash) {
      Refuse(fd, "the hosts run different versions of cuspan: install one version everywhere",
             interrupt);
      return Status::Refused(
          "agent {} is of another version of cuspan: install one version on "
          "all hosts",
          join.rank);
    }
    if (join.rank == 0 || join.rank >= agents || meeting.connections_[join.rank].valid()) {
      Refuse(fd, "the run has no such agent", interrupt);
      continue;
    }
    Result<Blob> address = ReceiveBytes(fd, join.bytes, interrupt, Soon());
    if (!address.ok()) continue;  // Its end is told by who started it.
    meeting.addresses_[join.rank] = std::move(*address);
    KeepAlive(fd);
    meeting.connections_[join.rank] = std::move(guest.fd);
    --missing;
  }
  const Answer answer{meeting.token_, agents, 0};
  for (std::uint32_t rank = 1; rank < agents; ++rank) {
    const int fd = meeting.connections_[rank].get();
    CUSPAN_RETURN_IF_ERROR(net::SendAll(fd, &answer, sizeof answer, interrupt, deadline));
    for (const Blob& address : meeting.addresses_)
      CUSPAN_RETURN_IF_ERROR(SendBlob(fd, address, interrupt));
  }
  return meeting;
}

Result<Meeting> Meeting::Attend(std::span<const net::Address> places, const Key128& secret,
                                std::uint32_t rank, Address own, net::Deadline deadline) {
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<net::Interrupt> never, net::Interrupt::Make(""));
  Meeting meeting(rank, std::move(never));
  CUSPAN_ASSIGN_OR_RETURN(UniqueFd home, ConnectToOne(places, *meeting.never_, deadline));
  KeepAlive(home.get());
  const Join join{kOpTableHash, secret, rank, static_cast<std::uint32_t>(own.size())};
  CUSPAN_RETURN_IF_ERROR(net::SendAll(home.get(), &join, sizeof join, *meeting.never_, deadline));
  CUSPAN_RETURN_IF_ERROR(
      net::SendAll(home.get(), own.data(), own.size(), *meeting.never_, deadline));
  // The others may take long to come.
  Answer answer{};
  CUSPAN_RETURN_IF_ERROR(
      net::ReceiveAll(home.get(), &answer, sizeof answer, *meeting.never_, net::kNever));
  if (answer.agents == 0) {
    CUSPAN_ASSIGN_OR_RETURN(const Blob reason,
                            ReceiveBytes(home.get(), answer.bytes, *meeting.never_, Soon()));
    return Status::Refused(
        "{}", std::string_view(reinterpret_cast<const char*>(reason.data()), reason.size()));
  }
  if (rank >= answer.agents) return Status::Invalid("the home agent has no agent {}", rank);
  meeting.token_ = answer.token;
  for (std::uint32_t other = 0; other < answer.agents; ++other) {
    CUSPAN_ASSIGN_OR_RETURN(Blob address, ReceiveBlob(home.get(), *meeting.never_, Soon()));
    meeting.addresses_.push_back(std::move(address));
  }
  meeting.connections_.resize(answer.agents);
  meeting.connections_[0] = std::move(home);
  return meeting;
}

int Meeting::fd(std::uint32_t rank) const { return connections_[rank].get(); }

Status Meeting::Send(std::uint32_t rank, Address message) {
  return SendBlob(connections_[rank].get(), message, *never_);
}

Result<Meeting::Blob> Meeting::Receive(std::uint32_t rank) {
  return ReceiveBlob(connections_[rank].get(), *never_, net::kNever);
}

}  // namespace cuspan

#include "launcher/agent/mpi/agent_bells.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include "common/boot_id.h"
#include "launcher/host/route.h"
#include "launcher/run/run_key.h"
#include "launcher/run/secure_network.h"
#include "protocol/channel/bell.h"

namespace cuspan {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// Longest time of polling after a message counted on here.
constexpr microseconds kMaxAwake{100};
// An agent polls at least this long for the answers to its messages (naps.h).
constexpr milliseconds kAwaits{1};
// An answer later than this is not expected: the agent sleeps, or nearly.
constexpr milliseconds kForgets{50};
// An answer takes as long as waking the receiver.
constexpr milliseconds kRepeatAfter{2};
constexpr std::uint32_t kMaxRepeats = 4;
// Number of unanswered rings that make an agent count as unreachable by datagrams.
constexpr std::uint32_t kMaxUnanswered = 16;
// A message told by a ring arrives with it; later, it is delayed, and polled for with naps.
constexpr milliseconds kDueSoon{1};
// Interval of reading answers while polling: each read is a system call.
constexpr milliseconds kReadEvery{1};

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t bytes = 0;
};

SocketAddress ToSocket(const net::Address& address, int family) {
  SocketAddress result;
  if (family == AF_INET) {
    auto& v4 = reinterpret_cast<sockaddr_in&>(result.storage);
    v4.sin_family = AF_INET;
    v4.sin_port = address.port;
    std::memcpy(&v4.sin_addr, address.bytes, sizeof v4.sin_addr);
    result.bytes = sizeof v4;
    return result;
  }
  auto& v6 = reinterpret_cast<sockaddr_in6&>(result.storage);
  v6.sin6_family = AF_INET6;
  v6.sin6_port = address.port;
  if (address.family == AF_INET6) {
    std::memcpy(&v6.sin6_addr, address.bytes, sizeof v6.sin6_addr);
  } else {
    // An IPv4-mapped address (RFC 4291, 2.5.5.2).
    v6.sin6_addr.s6_addr[10] = v6.sin6_addr.s6_addr[11] = 0xff;
    std::memcpy(v6.sin6_addr.s6_addr + 12, address.bytes, 4);
  }
  result.bytes = sizeof v6;
  return result;
}

// A socket of the family on a free port; invalid if this host has none.
UniqueFd OpenSocket(int family) {
  UniqueFd fd(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return fd;
  const int off = 0;
  if (family == AF_INET6 &&
      ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) != 0)
    return UniqueFd();
  sockaddr_storage any{};
  any.ss_family = static_cast<sa_family_t>(family);
  const socklen_t bytes = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&any), bytes) != 0) return UniqueFd();
  return fd;
}

std::uint16_t PortOf(int fd) {
  sockaddr_storage own{};
  socklen_t bytes = sizeof own;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &bytes) != 0) return 0;
  return own.ss_family == AF_INET ? reinterpret_cast<sockaddr_in&>(own).sin_port
                                  : reinterpret_cast<sockaddr_in6&>(own).sin6_port;
}

// Addresses of this host for the other agents, the loopback last.
Result<std::vector<net::Address>> AddressesToTell(std::uint16_t port, int family) {
  CUSPAN_ASSIGN_OR_RETURN(std::vector<net::Address> all, net::OwnAddresses(port));
  // A run with --secure and without encrypting interfaces ends elsewhere, with a message.
  const bool secure = std::getenv(kSecureHostsVariable) != nullptr;
  const Result<std::set<std::string>> interfaces = SecureInterfacesOfRun();
  std::erase_if(all, [&](const net::Address& address) {
    if (family == AF_INET && address.family != AF_INET) return true;
    return secure && !net::IsLoopback(address) &&
           !(interfaces.ok() && interfaces->contains(InterfaceWith(address)));
  });
  return all;
}

std::uint64_t HostNumber() { return std::hash<std::string>()(BootId()); }

}  // namespace

Result<std::unique_ptr<AgentBells>> AgentBells::Open() {
  int family = AF_INET6;
  UniqueFd socket = OpenSocket(family);
  if (!socket.valid()) socket = OpenSocket(family = AF_INET);
  if (!socket.valid())
    return Status::Unavailable("no UDP socket can be opened: {}", std::strerror(errno));
  CUSPAN_ASSIGN_OR_RETURN(std::vector<net::Address> addresses,
                          AddressesToTell(PortOf(socket.get()), family));
  CUSPAN_ASSIGN_OR_RETURN(const RunKey random, RunKey::Random());
  BellContact contact;
  CUSPAN_ASSIGN_OR_RETURN(const RunKey other, RunKey::Random());
  contact.token = random.secret;
  contact.wake_token = other.secret;
  contact.host = HostNumber();
  contact.awake_microseconds = static_cast<std::uint32_t>(
      std::chrono::duration_cast<microseconds>(WaitStages::ForThisMachine().yield).count());
  // The last address, the loopback, is kept: agents of one host use it.
  if (addresses.size() > BellContact::kMaxAddresses)
    addresses.erase(addresses.begin() + BellContact::kMaxAddresses - 1, addresses.end() - 1);
  contact.addresses = static_cast<std::uint32_t>(addresses.size());
  std::copy(addresses.begin(), addresses.end(), contact.address);
  return std::unique_ptr<AgentBells>(new AgentBells(std::move(socket), family, contact));
}

void AgentBells::Meet(std::uint32_t own_rank, std::span<const BellContact> agents, Time now) {
  own_rank_ = own_rank;
  peers_.resize(agents.size());
  for (std::size_t rank = 0; rank < agents.size(); ++rank) {
    peers_[rank].contact = agents[rank];
    std::uint32_t& addresses = peers_[rank].contact.addresses;
    addresses = std::min(addresses, BellContact::kMaxAddresses);
    // Sent there from another host, the token would reach another process.
    if (agents[rank].host != contact_.host)
      while (addresses != 0 && net::IsLoopback(agents[rank].address[addresses - 1])) --addresses;
    if (rank == own_rank) peers_[rank].given_up = true;
    if (!CanRing(peers_[rank])) continue;
    Ring(peers_[rank], 0, now);
    SetActive(peers_[rank], true);
  }
}

// Half of the time leaves the other half for the ring's way.
microseconds AgentBells::AwakeTime(const Peer& peer) {
  return std::min(kMaxAwake, microseconds(peer.contact.awake_microseconds / 2));
}

bool AgentBells::CanRing(const Peer& peer) {
  return !peer.given_up && peer.contact.addresses != 0 &&
         (peer.address || peer.unanswered < kMaxUnanswered);
}

// An agent is awake shortly after its messages. If not, the ring at the end of the burst wakes it.
bool AgentBells::MaySleep(const Peer& peer, Time now) {
  return now - peer.sent_last >= AwakeTime(peer) && now - peer.received_last >= kAwaits;
}

void AgentBells::SetActive(Peer& peer, bool active) {
  if (peer.active == active) return;
  peer.active = active;
  active_ += active ? 1 : -1U;
}

void AgentBells::Announce(std::uint32_t rank, Time now) {
  Peer& peer = peers_[rank];
  if (!CanRing(peer) || !MaySleep(peer, now) || peer.rung > peer.sent) return;
  Ring(peer, peer.sent + 1, now);
  peer.sent_last = now;
  SetActive(peer, true);
}

std::optional<FarWake> AgentBells::WakeOf(std::uint32_t rank) const {
  const Peer& peer = peers_[rank];
  if (peer.given_up || !peer.address) return std::nullopt;
  const net::Address& address = peer.contact.address[*peer.address];
  if (family_ == AF_INET && address.family != AF_INET) return std::nullopt;
  const SocketAddress to = ToSocket(address, family_);
  const Datagram wake{peer.contact.wake_token, Kind::kWake, own_rank_, 0, 0, 0, 0};
  return FarWake::Of(std::as_bytes(std::span(&to.storage, 1)).first(to.bytes),
                     std::as_bytes(std::span(&wake, 1)));
}

void AgentBells::BeginSend(std::uint32_t rank, Time now) {
  Peer& peer = peers_[rank];
  ++peer.sent;
  if (!CanRing(peer)) return;
  if (MaySleep(peer, now) && peer.rung < peer.sent) {
    // A ring takes as long as the message. Likely awake: the message goes first.
    peer.ring_follows = now - peer.received_last < kForgets || now - peer.woken_last < kDueSoon;
    if (!peer.ring_follows) Ring(peer, peer.sent, now);
  }
  peer.sent_last = now;
  SetActive(peer, true);
}

void AgentBells::EndSend(std::uint32_t rank, Time now) {
  Peer& peer = peers_[rank];
  if (std::exchange(peer.ring_follows, false)) Ring(peer, peer.sent, now);
}

void AgentBells::CountReceived(std::uint32_t rank, Time now) {
  ++peers_[rank].received;
  peers_[rank].received_last = now;
}

void AgentBells::Ring(Peer& peer, std::uint64_t messages, Time now) {
  peer.repeats = peer.rung == messages ? peer.repeats + 1 : 0;
  peer.rung = messages;
  peer.rung_last = now;
  Datagram ring{peer.contact.token, Kind::kRing, own_rank_, 0, 0, ++peer.rings, messages};
  if (peer.address) {
    ring.address = *peer.address;
    return SendTo(peer.contact.address[*peer.address], ring);
  }
  ++peer.unanswered;
  for (; ring.address < peer.contact.addresses; ++ring.address)
    SendTo(peer.contact.address[ring.address], ring);
}

void AgentBells::SendTo(const net::Address& address, const Datagram& datagram) const {
  if (family_ == AF_INET && address.family != AF_INET) return;
  const SocketAddress to = ToSocket(address, family_);
  // A datagram may get lost in any case.
  static_cast<void>(::sendto(socket_.get(), &datagram, sizeof datagram, MSG_DONTWAIT | MSG_NOSIGNAL,
                             reinterpret_cast<const sockaddr*>(&to.storage), to.bytes));
}

void AgentBells::EndBursts(Time now) {
  for (Peer& peer : peers_)
    if (CanRing(peer) && peer.rung != peer.sent) Ring(peer, peer.sent, now);
}

void AgentBells::Progress(Time now) {
  if (now - read_last_ >= kReadEvery) ReceiveAll(now);
  for (Peer& peer : peers_)
    if (peer.active) ProgressPeer(peer, now);
}

void AgentBells::ProgressPeer(Peer& peer, Time now) {
  if (!CanRing(peer)) return SetActive(peer, false);
  if (peer.rung != peer.sent) {
    // The end of a burst, or an announced message was not sent.
    if (now - peer.sent_last >= AwakeTime(peer)) Ring(peer, peer.sent, now);
    return;
  }
  if (peer.answered == peer.rings) return SetActive(peer, false);
  if (peer.repeats >= kMaxRepeats) {
    // Another address may work.
    if (std::exchange(peer.address, std::nullopt)) peer.unanswered = 0;
    return SetActive(peer, false);
  }
  if (now - peer.rung_last >= kRepeatAfter) Ring(peer, peer.sent, now);
}

void AgentBells::ReceiveAll(Time now) {
  // Leaves the rest of a flood for the next call.
  constexpr int kMost = 64;
  read_last_ = now;
  for (int count = 0; count < kMost; ++count) {
    Datagram datagram;
    SocketAddress from;
    from.bytes = sizeof from.storage;
    const ssize_t bytes =
        ::recvfrom(socket_.get(), &datagram, sizeof datagram, MSG_DONTWAIT | MSG_TRUNC,
                   reinterpret_cast<sockaddr*>(&from.storage), &from.bytes);
    if (bytes < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    // Other errors report the fate of an earlier datagram (udp(7)).
    if (bytes == sizeof datagram && datagram.kind == Kind::kWake &&
        SameSecret(datagram.token, contact_.wake_token)) {
      woken_last_ = now;
      continue;
    }
    if (bytes != sizeof datagram || datagram.rank >= peers_.size() ||
        !SameSecret(datagram.token, contact_.token))
      continue;
    Peer& peer = peers_[datagram.rank];
    if (datagram.kind == Kind::kRing) {
      if (datagram.number > peer.told_ring) {
        peer.told_ring = datagram.number;
        peer.told = datagram.messages;
        peer.told_last = now;
      }
      Datagram answer = datagram;
      answer.token = peer.contact.token;
      answer.kind = Kind::kAnswer;
      answer.rank = own_rank_;
      static_cast<void>(::sendto(socket_.get(), &answer, sizeof answer, MSG_DONTWAIT | MSG_NOSIGNAL,
                                 reinterpret_cast<const sockaddr*>(&from.storage), from.bytes));
    } else if (datagram.kind == Kind::kAnswer && datagram.address < peer.contact.addresses) {
      peer.address = datagram.address;
      peer.answered = std::max(peer.answered, std::min(datagram.number, peer.rings));
    }
  }
}

Transport::Rest AgentBells::Arm(Time now) {
  ReceiveAll(now);
  if (active()) Progress(now);
  if (now - woken_last_ < kDueSoon) return Transport::Rest::kNone;
  auto rest = active() ? Transport::Rest::kNaps : Transport::Rest::kUntilWoken;
  for (const Peer& peer : peers_) {
    const bool heard = peer.told_ring != 0;
    if (peer.given_up || (heard && peer.told == peer.received)) continue;
    if (peer.told > peer.received && now - peer.told_last < kDueSoon) return Transport::Rest::kNone;
    rest = Transport::Rest::kNaps;
  }
  return rest;
}

}  // namespace cuspan

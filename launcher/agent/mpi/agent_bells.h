// Wakes sleeping agents of a run over MPI: agents ring each other with UDP datagrams beside their
// messages. MPI itself has no wake-up.
//
// A ring tells the number of messages sent to the receiver so far. An agent sleeps only while this
// number equals that of the messages received, for each other agent. Then nothing is on its way,
// and the sender's rings do arrive. A sender rings at a message after a pause, because the receiver
// may sleep, and once more after the last message of a burst. Rings are answered; one without an
// answer is repeated. If a firewall drops the datagrams, agents do not sleep but poll.
//
// A datagram of a stranger does nothing: it does not contain the receiver's random token, passed to
// the other agents over MPI. Programs get another token, to wake the far agent themselves.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "common/status.h"
#include "common/unique_fd.h"
#include "launcher/agent/relay/transport.h"
#include "protocol/api/types.h"
#include "protocol/network/sockets.h"

namespace cuspan {

// The way to ring an agent; sent between processes of one architecture.
struct BellContact {
  static constexpr std::uint32_t kMaxAddresses = 8;
  Key128 token{};
  Key128 wake_token{};                   // Only for waking it.
  std::uint64_t host = 0;                // Equal numbers: one host, reached by the loopback, too.
  std::uint32_t awake_microseconds = 0;  // Time of polling after each message, at least.
  std::uint32_t addresses = 0;           // 0: this agent cannot be rung.
  net::Address address[kMaxAddresses];
};
static_assert(std::is_trivially_copyable_v<BellContact>);

// Threads: one.
class AgentBells {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // Longest sleep, in case that several rings in a row are lost.
  static constexpr std::chrono::milliseconds kLongestRest{500};

  // Opens the socket. With --secure, only addresses on the run's interfaces are told.
  static Result<std::unique_ptr<AgentBells>> Open();

  // To be told to the other agents.
  const BellContact& contact() const { return contact_; }
  // `agents`: contacts by rank, this agent's included. Rings each: from an agent never heard,
  // messages may come without a ring.
  void Meet(std::uint32_t own_rank, std::span<const BellContact> agents, Time now);
  // Readable when rung.
  int fd() const { return socket_.get(); }

  // A message to that agent follows at once: wakes it meanwhile.
  void Announce(std::uint32_t rank, Time now);
  // The same, if a process of this node has woken it: the ring may follow the message.
  void Woken(std::uint32_t rank, Time now) { peers_[rank].woken_last = now; }
  // The datagram for processes of this node to wake that agent; nothing before it answered a ring.
  std::optional<FarWake> WakeOf(std::uint32_t rank) const;
  // Called before and after each message to an agent.
  void BeginSend(std::uint32_t rank, Time now);
  void EndSend(std::uint32_t rank, Time now);
  // Called after each message from an agent.
  void CountReceived(std::uint32_t rank, Time now);
  // No more rings to this agent; sleep does not wait for it.
  void GiveUp(std::uint32_t rank) { peers_[rank].given_up = true; }

  // True if Progress has work now or later.
  bool active() const { return active_ != 0; }
  // Rings for all messages not told so far; Progress is not called any more.
  void EndBursts(Time now);
  // Sends rings that are due.
  void Progress(Time now);
  // Reads all rings, then decides how the caller may rest.
  Transport::Rest Arm(Time now);

 private:
  // Datagram, in native byte order.
  enum class Kind : std::uint32_t { kRing = 1, kAnswer = 2, kWake = 3 };
  struct Datagram {
    Key128 token;  // The receiver's; of kWake its wake_token.
    Kind kind;
    std::uint32_t rank;     // The sender's.
    std::uint32_t address;  // Index among the addresses of the ring's receiver.
    std::uint32_t unused;
    std::uint64_t number;    // The ring's, from 1. An answer repeats it,
    std::uint64_t messages;  // and the number of messages sent.
  };
  struct Peer {
    BellContact contact;
    std::optional<std::uint32_t> address;  // Address of an answered ring.
    std::uint64_t sent = 0;                // Messages.
    std::uint64_t rings = 0;
    std::uint64_t rung = 0;        // Messages told by the last ring.
    std::uint64_t answered = 0;    // Number of the last ring with an answer.
    std::uint32_t repeats = 0;     // Number of repeats of the last ring.
    std::uint32_t unanswered = 0;  // Rings before the first answer.
    Time sent_last{};
    Time rung_last{};
    Time woken_last{};          // Time of a wake by another process.
    bool ring_follows = false;  // The message being sent is followed by a ring.
    bool active = false;
    bool given_up = false;
    std::uint64_t received = 0;  // Messages.
    Time received_last{};
    std::uint64_t told = 0;       // Messages sent, by the peer's last ring,
    std::uint64_t told_ring = 0;  // and the number of this ring.
    Time told_last{};
  };

  AgentBells(UniqueFd socket, int family, const BellContact& contact)
      : socket_(std::move(socket)), family_(family), contact_(contact) {}
  static std::chrono::microseconds AwakeTime(const Peer& peer);
  static bool CanRing(const Peer& peer);
  static bool MaySleep(const Peer& peer, Time now);
  void SetActive(Peer& peer, bool active);
  // Tells of so many messages.
  void Ring(Peer& peer, std::uint64_t messages, Time now);
  void ProgressPeer(Peer& peer, Time now);
  void SendTo(const net::Address& address, const Datagram& datagram) const;
  void ReceiveAll(Time now);

  UniqueFd socket_;
  int family_;  // AF_INET6 reaches both kinds of addresses.
  BellContact contact_;
  std::uint32_t own_rank_ = 0;
  std::vector<Peer> peers_;
  std::uint32_t active_ = 0;  // Number of active peers: with rings due or unanswered.
  Time read_last_{};
  Time woken_last_{};
};

}  // namespace cuspan

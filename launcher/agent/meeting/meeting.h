// Meeting of a run's agents without MPI: each connects to the head agent over TCP, both prove
// knowledge of the run's secret, and all get the addresses of the others. The connections stay
// open: if one is closed, that agent has ended.
//
// Wire format, in native byte order (all hosts have one architecture): the head agent's Challenge,
// the other's Response, the head agent's Proof. Messages follow, each preceded by its length (u32):
// a Join and its Answer (agents.proto), then those of Send.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/status.h"
#include "common/unique_fd.h"
#include "launcher/agent/meeting/proof.h"
#include "protocol/api/types.h"
#include "protocol/network/sockets.h"

namespace cuspan {

// Threads: one.
class Meeting {
 public:
  using Blob = std::vector<std::byte>;

  // Addresses of one worker of an agent, in the transport's format.
  struct Address {
    Blob near;  // Used if `place` is equal.
    Blob far;   // Used otherwise.
  };
  struct Attendee {
    std::string host;
    std::string transport;  // Name and release.
    std::string place;      // Agents with equal values may share memory.
    std::vector<Address> addresses;
  };

  // Messages exchanged before either side has proved itself.
  static constexpr std::uint32_t kFormat = 0x31'43'55'63;  // "cUC1"
  struct Challenge {
    std::uint32_t format;
    Nonce nonce;
  };
  struct Response {
    std::uint32_t format;
    std::uint32_t rank;
    Nonce nonce;
    Proof proof;
  };

  // The head agent's part: blocks until an agent from each of `hosts` has connected to the
  // listener, with ranks from 1 on. Messages to the user contain these host names. Connections
  // without the secret are dropped; other versions of cuspan are refused. kUnavailable on a
  // timeout, an interrupt, or if one of `watched` is readable: an agent's process has ended.
  static Result<Meeting> Hold(const net::Listener& listener, const Key128& secret,
                              std::span<const std::string> hosts, const Attendee& own,
                              std::span<const int> watched, const net::Interrupt& interrupt,
                              net::Deadline deadline);
  // The part of the agent with that rank; one of `places` is the head agent's address. kRefused
  // with the head agent's reason; kUnavailable if none answers in time.
  static Result<Meeting> Attend(std::span<const net::Address> places, const Key128& secret,
                                std::uint32_t rank, const Attendee& own, net::Deadline deadline);

  std::uint32_t rank() const { return rank_; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(attendees_.size()); }
  // Indexed by rank. All have the same number of addresses.
  const std::vector<Attendee>& attendees() const { return attendees_; }
  // Address for reaching an agent's worker `end` from here.
  const Blob& AddressOf(std::uint32_t rank, std::size_t end) const;
  // Random number, new for each run and known only to its agents.
  std::uint64_t token() const { return token_; }

  // A copy with the same agents and no connections, for further workers of this agent.
  Result<Meeting> WithoutConnections() const;

  // Messages between the head agent and another one; both calls block. kUnavailable, with the
  // host's name, if the other is gone.
  Status Send(std::uint32_t rank, std::span<const std::byte> message);
  Result<Blob> Receive(std::uint32_t rank);
  // Connection to a rank, readable if it has sent something or is gone; -1 if there is no
  // connection.
  int fd(std::uint32_t rank) const;

 private:
  Meeting(std::uint32_t rank, std::shared_ptr<net::Interrupt> never)
      : rank_(rank), never_(std::move(never)) {}
  Status AskAll(const net::Listener& listener, const Key128& secret,
                std::span<const std::string> hosts, std::span<const int> watched,
                const net::Interrupt& interrupt, net::Deadline deadline);
  Status AnswerAll(const net::Interrupt& interrupt);

  std::uint32_t rank_;
  std::uint64_t token_ = 0;
  std::vector<Attendee> attendees_;
  std::vector<UniqueFd> connections_;  // Indexed by rank.
  std::shared_ptr<net::Interrupt> never_;
};

}  // namespace cuspan

// How the agents of a run meet where no MPI brings them together: each connects to the head agent
// over TCP, both prove that they are of the run, and all learn how the others are reached. The
// connections stay: the end of one is the end of an agent.
//
// What is said, in the byte order of the processors (all of one architecture): the head agent's
// Challenge, the other's Response, the head agent's Proof. Thereafter messages, each behind its
// length (u32): a Join and its Answer (agents.proto), then what the two agents send.
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

// One thread.
class Meeting {
 public:
  using Blob = std::vector<std::byte>;

  // Where one of an agent's ends is reached, in the words of what brings its messages.
  struct Address {
    Blob near;  // From the same place.
    Blob far;   // From elsewhere.
  };
  struct Attendee {
    std::string host;
    std::string transport;  // That and its release.
    std::string place;      // Agents of the same place may share memory.
    std::vector<Address> addresses;
  };

  // What both say before each knows the other.
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

  // The head agent's part: waits at the listener until all have come that run on these `hosts`,
  // which are called so in messages, with ranks from 1 on. Who does not know the secret is not
  // heard; who comes from another version of cuspan is refused. kUnavailable when late or
  // interrupted, or when one of `watched` can be read: the processes by which they come.
  static Result<Meeting> Hold(const net::Listener& listener, const Key128& secret,
                              std::span<const std::string> hosts, const Attendee& own,
                              std::span<const int> watched, const net::Interrupt& interrupt,
                              net::Deadline deadline);
  // The part of the agent of that rank: one of `places` is the head agent's. kRefused with its
  // sentence; kUnavailable when none of them answers in time.
  static Result<Meeting> Attend(std::span<const net::Address> places, const Key128& secret,
                                std::uint32_t rank, const Attendee& own, net::Deadline deadline);

  std::uint32_t rank() const { return rank_; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(attendees_.size()); }
  // By rank. All have as many addresses.
  const std::vector<Attendee>& attendees() const { return attendees_; }
  // Where that agent's end is reached from here.
  const Blob& AddressOf(std::uint32_t rank, std::size_t end) const;
  // Known to this run's agents alone, and new with each.
  std::uint64_t token() const { return token_; }

  // The same agents, with no connection to any: for more ends of this one.
  Result<Meeting> WithoutConnections() const;

  // Between the head agent and another one; both wait. kUnavailable, with its host, when that one
  // is gone.
  Status Send(std::uint32_t rank, std::span<const std::byte> message);
  Result<Blob> Receive(std::uint32_t rank);
  // The connection to that rank: readable when it has something to say, or is gone. -1 where there
  // is none.
  int fd(std::uint32_t rank) const;

 private:
  Meeting(std::uint32_t rank, std::shared_ptr<net::Interrupt> never)
      : rank_(rank), never_(std::move(never)) {}
  Status AskAll(const net::Listener& listener, const Key128& secret,
                std::span<const std::string> hosts, std::span<const int> watched,
                const net::Interrupt& interrupt, net::Deadline deadline);
  Status TellAll(const net::Interrupt& interrupt);

  std::uint32_t rank_;
  std::uint64_t token_ = 0;
  std::vector<Attendee> attendees_;
  std::vector<UniqueFd> connections_;  // By rank.
  std::shared_ptr<net::Interrupt> never_;
};

}  // namespace cuspan

// How the agents of a run meet where no MPI brings them together: each connects to the home agent
// over TCP, proves that it is of the run, and learns how the others are reached. The connections
// stay: the end of one is the end of an agent.
//
// What is said first, in the byte order of the processors (all of one architecture): a Join, then
// `bytes` of the agent's own address. The answer is an Answer; where it refuses, `bytes` of a
// sentence; else the addresses of all agents by rank, each behind its length (u32). Thereafter
// messages, each behind its length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/status.h"
#include "common/unique_fd.h"
#include "protocol/api/types.h"
#include "protocol/network/sockets.h"

namespace cuspan {

// One thread.
class Meeting {
 public:
  using Blob = std::vector<std::byte>;
  // Where an agent is reached, in the words of what brings its messages.
  using Address = std::span<const std::byte>;

  // The home agent's part: waits at the listener until all ranks from 1 to agents − 1 have come.
  // Who does not know the secret is not heard; who comes from another version of cuspan is refused.
  // kUnavailable when late or interrupted, or when one of `watched` can be read: the processes by
  // which they come.
  static Result<Meeting> Hold(const net::Listener& listener, const Key128& secret,
                              std::uint32_t agents, Address own, std::span<const int> watched,
                              const net::Interrupt& interrupt, net::Deadline deadline);
  // The part of the agent of that rank: one of `places` is the home agent's. kRefused with its
  // sentence; kUnavailable when none of them answers in time.
  static Result<Meeting> Attend(std::span<const net::Address> places, const Key128& secret,
                                std::uint32_t rank, Address own, net::Deadline deadline);

  std::uint32_t rank() const { return rank_; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(addresses_.size()); }
  // By rank.
  const std::vector<Blob>& addresses() const { return addresses_; }
  // Known to this run's agents alone, and new with each.
  std::uint64_t token() const { return token_; }

  // Between the home agent and another one; both wait. kUnavailable when that one is gone.
  Status Send(std::uint32_t rank, Address message);
  Result<Blob> Receive(std::uint32_t rank);
  // The connection to that rank: readable when it has something to say, or is gone. -1 where there
  // is none.
  int fd(std::uint32_t rank) const;

 private:
  Meeting(std::uint32_t rank, std::shared_ptr<net::Interrupt> never)
      : rank_(rank), never_(std::move(never)) {}

  std::uint32_t rank_;
  std::uint64_t token_ = 0;
  std::vector<Blob> addresses_;
  std::vector<UniqueFd> connections_;  // By rank.
  std::shared_ptr<net::Interrupt> never_;
};

}  // namespace cuspan

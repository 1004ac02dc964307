// Communication between the ranks of one run (agents and their lanes): messages, and bulk bytes
// directly between their buffers. Implemented over MPI (mpi/), UCX (ucx/) and in tests.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "protocol/channel/far_wake.h"

namespace cuspan {

// Threads: one. Messages from one agent to another arrive in the order sent.
class Transport {
 public:
  // Properties of an implementation.
  struct Limits {
    std::size_t message_bytes;  // Maximum size for TrySend. Every frame fits.
    std::uint32_t tags;         // Bulk uses tags 1 … tags.
    std::uint64_t least_chunk;  // Smallest useful chunk, in bytes; smaller ones gain nothing.
    // True if sends started together also complete together. The allowed sends are then started in
    // two halves, to keep the link busy.
    bool begins_in_halves;
  };

  struct Message {
    std::uint32_t rank = 0;  // The sender's rank.
    std::span<const std::byte> bytes;
  };

  virtual ~Transport() = default;
  // Value of the option --relay.
  virtual std::string_view name() const = 0;
  virtual std::uint32_t rank() const = 0;
  virtual std::uint32_t size() const = 0;
  // True if all ranks have proved their knowledge of the run's secret. It is then not sent.
  virtual bool proved() const = 0;
  // Constant for the lifetime of the transport.
  virtual const Limits& limits() const = 0;

  // --- Before the relay starts: few messages, of any size. Both calls block. kUnavailable if the
  // rank is gone.
  virtual Status SendWhole(std::uint32_t rank, std::span<const std::byte> message) = 0;
  virtual Result<std::vector<std::byte>> ReceiveWhole(std::uint32_t rank) = 0;

  // --- While the relay runs: no call blocks.

  // Copies and sends a message. If too many are in flight to that agent, returns false: try again
  // later.
  virtual bool TrySend(std::uint32_t rank, std::span<const std::byte> message) = 0;
  // A message to that agent follows at once. Wakes it meanwhile, where this saves time.
  virtual void Announce(std::uint32_t /*rank*/) {}
  // The same, if a process of this node has just woken it.
  virtual void Woken(std::uint32_t /*rank*/) {}
  // The way for processes of this node to do so, if there is one by now. The agent then polls for
  // the message for a while.
  virtual std::optional<FarWake> WakeOf(std::uint32_t /*rank*/) const { return std::nullopt; }
  // The next message, valid until the next call; empty if none has arrived.
  virtual std::optional<Message> TryReceive() = 0;

  // Bulk: the buffer must stay valid until FinishedBulk returns `id`, chosen by the caller. Sends
  // to one rank with one tag match the receives posted there with that tag, in order. Each receive
  // is at least as long as its send.
  virtual void StartBulkSend(std::uint32_t rank, std::uint32_t tag,
                             std::span<const std::byte> bytes, std::uint64_t id) = 0;
  // Posted ahead of the send. FinishedBulk does not return it before ExpectBulk.
  virtual void StartBulkReceive(std::uint32_t rank, std::uint32_t tag, std::span<std::byte> bytes,
                                std::uint64_t id) = 0;
  // Declares that a send for this receive is in flight or imminent. False if already declared.
  virtual bool ExpectBulk(std::uint64_t id) = 0;
  // Cancels a receive without a matching send: its memory is free again, and FinishedBulk does not
  // return it. True if it was expected.
  virtual bool CancelBulkReceive(std::uint64_t id) = 0;
  // Appends the ids finished since the last call.
  virtual void FinishedBulk(std::vector<std::uint64_t>& ids) = 0;

  // --- Sleep.

  enum class Rest {
    kNone,        // Work arrives within microseconds: poll on.
    kNaps,        // Work may come without a wake-up: sleep shortly, and poll.
    kUntilWoken,  // wake_fd() gets readable with the next work.
  };
  // Descriptor readable when there is work, after Arm has returned kUntilWoken. -1 if the transport
  // has no wake-up and must be polled.
  virtual int wake_fd() const = 0;
  // How the caller may rest now.
  virtual Rest Arm() = 0;
  // Limit of a rest until woken, after which Arm is called again. Negative: none.
  virtual std::chrono::milliseconds longest_rest() const { return std::chrono::milliseconds(-1); }

  // --- Lost ranks.

  struct LostPeer {
    std::uint32_t rank;
    std::string cause;
  };
  // Returns the next rank known to be lost, each one once; ranks given up are not reported.
  // Detection is optional for an implementation.
  virtual std::optional<LostPeer> ConsumeLost() = 0;
  // Stops sending to a rank and drops its messages. Its bulk may or may not finish, so that memory
  // must stay valid until the transport is destroyed.
  virtual void GiveUp(std::uint32_t rank) = 0;

  // Closes the connections in order, with no bulk in flight any more. All agents call it.
  virtual void Shutdown() = 0;
};

}  // namespace cuspan

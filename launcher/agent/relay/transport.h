// How the ranks of one run (agents, and their lanes) reach each other: messages,
// and bulk bytes straight between their buffers. MPI (mpi/) and UCX (ucx/) are implementations;
// tests have another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace cuspan {

// One thread. Messages from one agent to another arrive in the order in which they were sent.
class Transport {
 public:
  // What suits it.
  struct Limits {
    std::size_t message_bytes;  // The largest message of TrySend. Every frame fits one.
    std::uint32_t tags;         // Bulk has the tags 1 … tags.
    std::uint64_t least_chunk;  // What is gained by smaller pieces of bulk is lost again.
    // Sends that are begun together are held up together: those that may be under way are better
    // begun in two halves.
    bool begins_in_halves;
  };

  struct Message {
    std::uint32_t rank = 0;  // Of its sender.
    std::span<const std::byte> bytes;
  };

  virtual ~Transport() = default;
  // As --relay has it.
  virtual std::string_view name() const = 0;
  virtual std::uint32_t rank() const = 0;
  virtual std::uint32_t size() const = 0;
  // All have proved that they know the run's secret, which then need not be said.
  virtual bool proved() const = 0;
  // The same for as long as it lives.
  virtual const Limits& limits() const = 0;

  // --- Before the relay starts: few messages, of any size; both wait. kUnavailable when that rank
  // is gone.
  virtual Status SendWhole(std::uint32_t rank, std::span<const std::byte> message) = 0;
  virtual Result<std::vector<std::byte>> ReceiveWhole(std::uint32_t rank) = 0;

  // --- Thereafter; nothing waits.

  // Copies and sends a message; false when too many are under way to that agent: try again later.
  virtual bool TrySend(std::uint32_t rank, std::span<const std::byte> message) = 0;
  // The next message, valid until the next call; nothing when there is none now.
  virtual std::optional<Message> TryReceive() = 0;

  // Bulk: the bytes stay where they are until FinishedBulk names `id`, the
  // caller's own. What is sent to one rank under one tag goes into the receives
  // that were posted there for it in their order, each at least as long as what it gets.
  virtual void StartBulkSend(std::uint32_t rank, std::uint32_t tag,
                             std::span<const std::byte> bytes, std::uint64_t id) = 0;
  // Posted ahead: FinishedBulk does not name it before it was expected.
  virtual void StartBulkReceive(std::uint32_t rank, std::uint32_t tag, std::span<std::byte> bytes,
                                std::uint64_t id) = 0;
  // Something is on its way into that receive, or will be soon. False when that was known.
  virtual bool ExpectBulk(std::uint64_t id) = 0;
  // Nothing will be sent into that receive; its memory is free again, and its id is not named.
  // True when it was expected.
  virtual bool CancelBulkReceive(std::uint64_t id) = 0;
  // Appends the ids of what was finished since the last call.
  virtual void FinishedBulk(std::vector<std::uint64_t>& ids) = 0;

  // --- Sleep.

  // A descriptor that can be read when there is something to do, once Arm has said that there is
  // nothing; -1 where nobody tells, and one has to look.
  virtual int wake_fd() const = 0;
  virtual bool Arm() = 0;

  // --- Who is gone.

  struct LostPeer {
    std::uint32_t rank;
    std::string cause;
  };
  // The next one that is known to be gone: told once each, and not of those that were given up. A
  // transport need not know.
  virtual std::optional<LostPeer> TakeLost() = 0;
  // Nothing more is sent to that one, and what comes from it is dropped. Its bulk may end and be
  // named, or never: its memory has to stay as long as the transport.
  virtual void GiveUp(std::uint32_t rank) = 0;

  // Ends the connections in good order, when no bulk is under way any more. All agents call it.
  virtual void Shutdown() = 0;
};

}  // namespace cuspan

// The connections of one rank to all others of its communicator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/status.h"
#include "common/unique_fd.h"
#include "protocol/network/sockets.h"

namespace cuspan::softnccl {

// Bytes for another rank, and room for those of another. Both may be this rank.
struct Outgoing {
  int rank;
  const std::byte* data;
  std::size_t bytes;
};
struct Incoming {
  int rank;
  std::byte* data;
  std::size_t bytes;
};

// Threads: one at a time; the interrupt may be raised by any.
class Mesh {
 public:
  // `links`: a connection to each rank that does not block; none to `rank` itself.
  Mesh(int rank, std::vector<UniqueFd> links, std::shared_ptr<net::Interrupt> interrupt)
      : rank_(rank), links_(std::move(links)), interrupt_(std::move(interrupt)) {}

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(links_.size()); }

  // Sends and receives all of it, as it comes. What goes from one rank to another arrives in the
  // order in which both name it. kInvalid when a rank sends something of another size or with
  // another `kind` than is expected of it; kUnavailable when one is gone, or when interrupted.
  // After a failure the connections are closed, so that the other ranks fail, too.
  Status Exchange(std::uint64_t kind, std::span<const Outgoing> outgoing,
                  std::span<const Incoming> incoming);

  // The same number of bytes from each of these ranks (this one among them), in their order.
  Result<std::vector<std::byte>> Gather(std::uint64_t kind, std::span<const int> ranks,
                                        std::span<const std::byte> own);

  // No more exchanges: the other ranks see that this one is gone.
  void Close() {
    for (UniqueFd& link : links_) link.Reset();
  }

 private:
  Status TryExchange(std::uint64_t kind, std::span<const Outgoing> outgoing,
                     std::span<const Incoming> incoming);

  int rank_;
  std::vector<UniqueFd> links_;
  std::shared_ptr<net::Interrupt> interrupt_;
};

}  // namespace cuspan::softnccl

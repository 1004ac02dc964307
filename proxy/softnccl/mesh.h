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

// A buffer sent to a rank, and one received from a rank. The rank may be this one.
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
  // `links`: a non-blocking connection to each rank, except `rank` itself.
  Mesh(int rank, std::vector<UniqueFd> links, std::shared_ptr<net::Interrupt> interrupt)
      : rank_(rank), links_(std::move(links)), interrupt_(std::move(interrupt)) {}

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(links_.size()); }

  // Sends and receives all buffers concurrently. Buffers from one rank to another arrive in the
  // order listed by both. kInvalid if a rank sends another size or `kind` than expected.
  // kUnavailable if a rank is gone, or when interrupted. After a failure the connections are
  // closed, so the other ranks fail, too.
  Status Exchange(std::uint64_t kind, std::span<const Outgoing> outgoing,
                  std::span<const Incoming> incoming);

  // Collects the same number of bytes from each of these ranks (with this one), in their order.
  Result<std::vector<std::byte>> Gather(std::uint64_t kind, std::span<const int> ranks,
                                        std::span<const std::byte> own);

  // Closes all connections; the other ranks detect the loss of this one.
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

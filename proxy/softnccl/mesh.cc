#include "proxy/softnccl/mesh.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <deque>

namespace cuspan::softnccl {
namespace {

// Sent before each piece, to detect ranks running different operations.
struct Header {
  std::uint64_t kind;
  std::uint64_t bytes;
};

// Data in flight between this rank and another, in one direction.
struct Piece {
  std::byte* data;
  std::size_t bytes;
};
struct Flow {
  std::deque<Piece> pieces;
  Header header{};           // Header of the first piece.
  std::size_t progress = 0;  // Bytes done of header and first piece.
  bool done() const { return pieces.empty(); }
};

enum class Step { kBlocked, kGone, kMismatch };

// Calls `move` for the next header or piece, until it blocks or all is done.
template <typename Move, typename Check>
Step Progress(Flow& flow, std::uint64_t kind, Move move, Check check) {
  while (!flow.done()) {
    const Piece& piece = flow.pieces.front();
    if (flow.progress == 0) check.begin(flow.header, Header{kind, piece.bytes});
    const bool in_header = flow.progress < sizeof(Header);
    std::byte* const from = in_header ? reinterpret_cast<std::byte*>(&flow.header) + flow.progress
                                      : piece.data + (flow.progress - sizeof(Header));
    const std::size_t left =
        (in_header ? sizeof(Header) : sizeof(Header) + piece.bytes) - flow.progress;
    if (left > 0) {
      const ssize_t moved = move(from, left);
      if (moved < 0 && errno == EINTR) continue;
      if (moved < 0 && errno == EAGAIN) return Step::kBlocked;
      if (moved <= 0) return Step::kGone;
      flow.progress += static_cast<std::size_t>(moved);
    }
    if (flow.progress == sizeof(Header) && in_header &&
        !check.matches(flow.header, Header{kind, piece.bytes}))
      return Step::kMismatch;
    if (flow.progress == sizeof(Header) + piece.bytes) {
      flow.pieces.pop_front();
      flow.progress = 0;
    }
  }
  return Step::kBlocked;
}

struct OfSender {
  void begin(Header& header, const Header& own) const { header = own; }
  bool matches(const Header&, const Header&) const { return true; }
};
struct OfReceiver {
  void begin(Header& header, const Header&) const { header = {}; }
  bool matches(const Header& theirs, const Header& own) const {
    return theirs.kind == own.kind && theirs.bytes == own.bytes;
  }
};

// Copies from this rank to itself.
Status CopyOwn(int rank, std::span<const Outgoing> outgoing, std::span<const Incoming> incoming) {
  std::size_t next = 0;
  for (const Outgoing& out : outgoing) {
    if (out.rank != rank) continue;
    while (next < incoming.size() && incoming[next].rank != rank) ++next;
    if (next == incoming.size() || incoming[next].bytes != out.bytes)
      return Status::Invalid("rank {} sends itself {} bytes that it does not receive", rank,
                             out.bytes);
    if (out.bytes > 0) std::memmove(incoming[next].data, out.data, out.bytes);
    ++next;
  }
  while (next < incoming.size() && incoming[next].rank != rank) ++next;
  if (next < incoming.size())
    return Status::Invalid("rank {} receives {} bytes from itself that it does not send", rank,
                           incoming[next].bytes);
  return Status::Ok();
}

}  // namespace

Status Mesh::Exchange(std::uint64_t kind, std::span<const Outgoing> outgoing,
                      std::span<const Incoming> incoming) {
  Status status = TryExchange(kind, outgoing, incoming);
  if (!status.ok()) Close();
  return status;
}

Status Mesh::TryExchange(std::uint64_t kind, std::span<const Outgoing> outgoing,
                         std::span<const Incoming> incoming) {
  CUSPAN_RETURN_IF_ERROR(CopyOwn(rank_, outgoing, incoming));
  std::vector<Flow> out(links_.size()), in(links_.size());
  for (const Outgoing& one : outgoing)
    if (one.rank != rank_)
      out[one.rank].pieces.push_back({const_cast<std::byte*>(one.data), one.bytes});
  for (const Incoming& one : incoming)
    if (one.rank != rank_) in[one.rank].pieces.push_back({one.data, one.bytes});

  std::vector<pollfd> entries;
  std::vector<int> ranks;
  while (true) {
    entries.assign(1, {.fd = interrupt_->fd(), .events = POLLIN, .revents = 0});
    ranks.assign(1, rank_);
    for (int rank = 0; rank < size(); ++rank) {
      if (out[rank].done() && in[rank].done()) continue;
      const int fd = links_[rank].get();
      if (fd < 0) return Status::Unavailable("rank {} is gone", rank);
      const int events = (out[rank].done() ? 0 : POLLOUT) | (in[rank].done() ? 0 : POLLIN);
      entries.push_back({.fd = fd, .events = static_cast<short>(events), .revents = 0});
      ranks.push_back(rank);
    }
    if (entries.size() == 1) return Status::Ok();
    if (::poll(entries.data(), entries.size(), -1) < 0 && errno != EINTR)
      return Status::Internal("cannot wait for the other ranks: {}", std::strerror(errno));
    if (entries[0].revents != 0) return Status::Unavailable("{}", interrupt_->why());
    for (std::size_t i = 1; i < entries.size(); ++i) {
      const int rank = ranks[i], fd = entries[i].fd;
      if (entries[i].revents == 0) continue;
      const Step received = Progress(
          in[rank], kind,
          [fd](std::byte* to, std::size_t bytes) { return ::recv(fd, to, bytes, 0); },
          OfReceiver());
      if (received == Step::kMismatch)
        return Status::Invalid(
            "rank {} sends {} bytes (operation {:#x}); expected are {} bytes (operation {:#x}): "
            "the ranks call different operations",
            rank, in[rank].header.bytes, in[rank].header.kind, in[rank].pieces.front().bytes, kind);
      const Step sent = Progress(
          out[rank], kind,
          [fd](const std::byte* from, std::size_t bytes) {
            return ::send(fd, from, bytes, MSG_NOSIGNAL);
          },
          OfSender());
      if (received == Step::kGone || sent == Step::kGone)
        return Status::Unavailable("rank {} is gone", rank);
    }
  }
}

Result<std::vector<std::byte>> Mesh::Gather(std::uint64_t kind, std::span<const int> ranks,
                                            std::span<const std::byte> own) {
  std::vector<std::byte> all(ranks.size() * own.size());
  std::vector<Outgoing> outgoing;
  std::vector<Incoming> incoming;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    outgoing.push_back({ranks[i], own.data(), own.size()});
    incoming.push_back({ranks[i], all.data() + i * own.size(), own.size()});
  }
  CUSPAN_RETURN_IF_ERROR(Exchange(kind, outgoing, incoming));
  return all;
}

}  // namespace cuspan::softnccl

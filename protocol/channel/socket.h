// Control messages over Unix sockets: frames, and the file descriptors that go with them.
//
// Addresses are abstract ("cuspan-…", no file is left behind) and only reachable
// in the same network namespace. They are no secret: /proc/net/unix shows them. Both sides check
// that the peer is the same user; who listens does so by a Reception (reception.h).
#pragma once

#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "common/status.h"
#include "common/unique_fd.h"
#include "protocol/wire/frame.h"

namespace cuspan {

// A connected socket. One thread at a time.
class ControlSocket {
 public:
  // So many descriptors of the peer's may be received and not taken: an honest one's are taken with
  // their message.
  static constexpr std::size_t kMaxWaitingFds = 64;
  explicit ControlSocket(UniqueFd fd, std::size_t most_waiting_fds = kMaxWaitingFds)
      : fd_(std::move(fd)), most_waiting_fds_(most_waiting_fds) {}

  // A listener that takes no connection (its process is stopped, say) is waited for so long.
  static constexpr std::chrono::milliseconds kConnectLimit{10'000};
  static Result<ControlSocket> Connect(const std::string& address,
                                       std::chrono::milliseconds limit = kConnectLimit);
  // Two connected ends, for a child process.
  static Result<std::pair<ControlSocket, ControlSocket>> Pair();

  // Sends one message with copies of `fds`. kUnavailable when the peer is gone, or has not taken
  // all of it within a second; then nothing more can be sent.
  template <typename T>
  Status Send(const T& message, std::span<const int> fds = {}) {
    return SendFrame(MakeFrame(message), fds);
  }
  Status SendFrame(const std::vector<std::byte>& frame, std::span<const int> fds);

  // The same without waiting: what the peer has no room for is kept, with copies of the
  // descriptors, and goes with Flush, in order. kUnavailable when the peer is gone. Nothing may
  // be sent by Send while something is kept.
  template <typename T>
  Status Post(const T& message, std::span<const int> fds = {}) {
    return PostFrame(MakeFrame(message), fds);
  }
  Status PostFrame(std::vector<std::byte> frame, std::span<const int> fds);
  // Sends what was kept, as far as there is room.
  Status Flush();
  // How many messages are kept, in part or whole.
  std::size_t kept() const { return kept_.size(); }

  // A received frame; `frame.payload` points into `bytes`.
  struct Message {
    std::vector<std::byte> bytes;
    Frame frame;
  };
  // The next whole message, or nothing when it is not there yet. Never waits.
  // kUnavailable at the end of the stream.
  Result<std::optional<Message>> TryReceive();
  // Waits for it, at most `limit` (kUnavailable then, naming `what` was waited for).
  Result<Message> Receive(std::chrono::milliseconds limit, const char* what);
  // Waits for a message of type T; a Refused from the peer becomes a failure with its reason.
  template <typename T>
  Result<T> Expect(std::chrono::milliseconds limit) {
    CUSPAN_ASSIGN_OR_RETURN(Message message, Receive(limit, OpName(T::kOp)));
    if (message.frame.op() == Op::kRefused) {
      CUSPAN_ASSIGN_OR_RETURN(Refused refused, ParseMessage<Refused>(message.frame));
      return Status::Refused("{}", refused.reason);
    }
    return ParseMessage<T>(message.frame);
  }
  // The oldest descriptor that came with a message and was not taken yet; invalid when there is
  // none.
  UniqueFd TakeFd();

  int fd() const { return fd_.get(); }

 private:
  struct Kept {
    std::vector<std::byte> bytes;
    std::size_t sent = 0;
    std::vector<UniqueFd> fds;  // They go with the first byte.
  };
  // How many bytes left; 0 when there is no room.
  Result<std::size_t> SendPart(std::span<const std::byte> bytes, std::span<const int> fds);
  Status ReadMore();
  UniqueFd fd_;
  std::size_t most_waiting_fds_;
  std::vector<std::byte> buffer_;
  std::deque<UniqueFd> fds_;
  std::deque<Kept> kept_;
};

// A listening socket.
class ControlListener {
 public:
  // kInvalid when the address is taken.
  static Result<ControlListener> Listen(const std::string& address);
  // The next connection, whoever it is from; nothing when none waits. kExhausted when this process
  // can have no more descriptors: then the connection still waits.
  Result<std::optional<UniqueFd>> TryAccept();
  int fd() const { return fd_.get(); }

 private:
  explicit ControlListener(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

// That the process at the other end of a connected socket is this process's user's: kRefused, with
// who it is, when it is not.
Status CheckPeer(int fd);

}  // namespace cuspan

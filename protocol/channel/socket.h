// Control messages over Unix sockets: frames with file descriptors attached.
//
// Addresses are abstract ("cuspan-…", no file is left behind) and only reachable in the same
// network namespace. They are not secret: /proc/net/unix shows them. Both sides check that the peer
// has the same user; the listening side uses a Reception (reception.h).
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

// A connected socket. Threads: one at a time.
class ControlSocket {
 public:
  // Maximum number of received descriptors not yet taken. A correct peer's are taken together with
  // their message.
  static constexpr std::size_t kMaxWaitingFds = 64;
  explicit ControlSocket(UniqueFd fd, std::size_t most_waiting_fds = kMaxWaitingFds)
      : fd_(std::move(fd)), most_waiting_fds_(most_waiting_fds) {}

  // Maximum wait for a listener to accept the connection; its process may be stopped.
  static constexpr std::chrono::milliseconds kConnectLimit{10'000};
  static Result<ControlSocket> Connect(const std::string& address,
                                       std::chrono::milliseconds limit = kConnectLimit);
  // Two connected ends, for a child process.
  static Result<std::pair<ControlSocket, ControlSocket>> Pair();

  // Time for a peer to receive a whole message: a peer that does not read must not block the
  // sender.
  static constexpr std::chrono::milliseconds kSendLimit{1'000};
  // Tests use a shorter one.
  void SetSendLimit(std::chrono::milliseconds limit) { send_limit_ = limit; }
  // Sends one message with duplicates of `fds`. kUnavailable if the peer is gone, or has not
  // received all of it within the limit. After that the socket can not send any more.
  template <typename T>
  Status Send(const T& message, std::span<const int> fds = {}) {
    return SendFrame(MakeFrame(message), fds);
  }
  Status SendFrame(const std::vector<std::byte>& frame, std::span<const int> fds);

  // The same without blocking. If the socket is full, the rest is kept, with duplicates of the
  // descriptors, and sent in order by Flush. kUnavailable if the peer is gone. Send must not be
  // called while messages are kept.
  template <typename T>
  Status Post(const T& message, std::span<const int> fds = {}) {
    return PostFrame(MakeFrame(message), fds);
  }
  Status PostFrame(std::vector<std::byte> frame, std::span<const int> fds);
  // Sends kept messages until the socket is full.
  Status Flush();
  // Number of messages kept, in part or whole.
  std::size_t kept() const { return kept_.size(); }

  // A received frame; `frame.payload` points into `bytes`.
  struct Message {
    std::vector<std::byte> bytes;
    Frame frame;
  };
  // The next complete message, or nothing if it has not arrived. Never blocks. kUnavailable at the
  // end of the stream.
  Result<std::optional<Message>> TryReceive();
  // Blocks until it arrives, for at most `limit`. After that returns kUnavailable; the message
  // contains `what`.
  Result<Message> Receive(std::chrono::milliseconds limit, const char* what);
  // Waits for a message of type T. A Refused from the peer becomes a failure with its reason.
  template <typename T>
  Result<T> Expect(std::chrono::milliseconds limit) {
    CUSPAN_ASSIGN_OR_RETURN(Message message, Receive(limit, OpName(T::kOp)));
    if (message.frame.op() == Op::kRefused) {
      CUSPAN_ASSIGN_OR_RETURN(Refused refused, ParseMessage<Refused>(message.frame));
      return Status::Refused("{}", refused.reason);
    }
    return ParseMessage<T>(message.frame);
  }
  // The oldest descriptor received but not taken; invalid if none.
  UniqueFd ExtractFd();

  int fd() const { return fd_.get(); }

 private:
  struct Kept {
    std::vector<std::byte> bytes;
    std::size_t sent = 0;
    std::vector<UniqueFd> fds;  // Sent with the first byte.
  };
  // Returns the number of bytes sent; 0 if the socket is full.
  Result<std::size_t> SendPart(std::span<const std::byte> bytes, std::span<const int> fds);
  Status ReadMore();
  UniqueFd fd_;
  std::size_t most_waiting_fds_;
  std::chrono::milliseconds send_limit_ = kSendLimit;
  std::vector<std::byte> buffer_;
  std::deque<UniqueFd> fds_;
  std::deque<Kept> kept_;
};

// A listening socket.
class ControlListener {
 public:
  // kInvalid if the address is in use.
  static Result<ControlListener> Listen(const std::string& address);
  // The next connection, of any user; nothing if none is waiting. kExhausted if this process has no
  // free descriptors: the connection stays in the queue.
  Result<std::optional<UniqueFd>> TryAccept();
  int fd() const { return fd_.get(); }

 private:
  explicit ControlListener(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

// Checks that the peer of a connected socket has this process's user. Otherwise kRefused; the
// message contains the peer's process and user.
Status CheckPeer(int fd);

}  // namespace cuspan

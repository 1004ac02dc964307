#include "protocol/channel/socket.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "common/high_fd.h"

namespace cuspan {
namespace {

constexpr std::size_t kMaxFds = 8;

Result<std::pair<sockaddr_un, socklen_t>> AbstractAddress(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name.empty() || name.size() + 1 > sizeof address.sun_path)
    return Status::Invalid("'{}' is not a socket address of cuspan", name);
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  return std::pair(address,
                   static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size()));
}

// Only cuspan's agents listen under the name of a run.
const char* WhyNotConnected(int error) {
  if (error == ECONNREFUSED)
    return "the run has ended, or this process is in another network namespace";
  if (error == EAGAIN) return "it accepts no connection; it is stopped, or gets no processor time";
  return std::strerror(error);
}

}  // namespace

Status CheckPeer(int fd) {
  ucred peer{};
  socklen_t bytes = sizeof peer;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0)
    return Status::Internal("reading the credentials of a socket's peer: {}", std::strerror(errno));
  if (peer.uid != ::geteuid())
    return Status::Refused("process {} belongs to user {}, not to this run's user {}", peer.pid,
                           peer.uid, ::geteuid());
  return Status::Ok();
}

Result<ControlSocket> ControlSocket::Connect(const std::string& address,
                                             std::chrono::milliseconds limit) {
  CUSPAN_ASSIGN_OR_RETURN(auto target, AbstractAddress(address));
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return Status::Internal("socket: {}", std::strerror(errno));
  // If an agent is stopped and its listen queue is full, connect blocks.
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(limit);
  const timeval send_limit{seconds.count(), std::chrono::microseconds(limit - seconds).count()};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &send_limit, sizeof send_limit);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&target.first), target.second) != 0)
    return Status::Unavailable("no cuspan agent answers at '{}': {}", address,
                               WhyNotConnected(errno));
  CUSPAN_RETURN_IF_ERROR(CheckPeer(fd.get()));
  return ControlSocket(MoveHigh(std::move(fd)));
}

Result<std::pair<ControlSocket, ControlSocket>> ControlSocket::Pair() {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0)
    return Status::Internal("socketpair: {}", std::strerror(errno));
  return std::pair(ControlSocket(UniqueFd(fds[0])), ControlSocket(UniqueFd(fds[1])));
}

Result<std::size_t> ControlSocket::SendPart(std::span<const std::byte> bytes,
                                            std::span<const int> fds) {
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  // Zeroed: the kernel also reads the padding.
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxFds)] = {};
  if (!fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
    std::memcpy(CMSG_DATA(rights), fds.data(), sizeof(int) * fds.size());
  }
  for (;;) {
    const ssize_t sent = ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) return static_cast<std::size_t>(sent);
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return std::size_t{0};
    return Status::Unavailable("sending a control message: {}", std::strerror(errno));
  }
}

namespace {

Status CheckSize(const std::vector<std::byte>& frame, std::span<const int> fds) {
  if (frame.size() <= kMaxControlBytes && fds.size() <= kMaxFds) return Status::Ok();
  return Status::Invalid("a control message of {} bytes and {} descriptors is too large",
                         frame.size(), fds.size());
}

}  // namespace

Status ControlSocket::SendFrame(const std::vector<std::byte>& frame, std::span<const int> fds) {
  CUSPAN_RETURN_IF_ERROR(CheckSize(frame, fds));
  const auto deadline = std::chrono::steady_clock::now() + send_limit_;
  for (std::size_t sent = 0; sent < frame.size();) {
    CUSPAN_ASSIGN_OR_RETURN(
        const std::size_t part,
        SendPart(std::span(frame).subspan(sent), sent == 0 ? fds : std::span<const int>()));
    sent += part;
    if (part != 0) continue;
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0)
      return Status::Unavailable("sending a control message: the other side does not read");
    pollfd room{fd_.get(), POLLOUT, 0};
    ::poll(&room, 1, static_cast<int>(left.count()));
  }
  return Status::Ok();
}

Status ControlSocket::PostFrame(std::vector<std::byte> frame, std::span<const int> fds) {
  CUSPAN_RETURN_IF_ERROR(CheckSize(frame, fds));
  Kept message{std::move(frame), 0, {}};
  if (kept_.empty()) {
    CUSPAN_ASSIGN_OR_RETURN(message.sent, SendPart(message.bytes, fds));
    if (message.sent == message.bytes.size()) return Status::Ok();
  }
  if (message.sent == 0) {
    for (const int fd : fds) {
      message.fds.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
      if (!message.fds.back().valid())
        return Status::Exhausted("duplicating a descriptor to be sent: {}", std::strerror(errno));
    }
  }
  kept_.push_back(std::move(message));
  return Status::Ok();
}

Status ControlSocket::Flush() {
  while (!kept_.empty()) {
    Kept& message = kept_.front();
    std::vector<int> fds;
    for (const UniqueFd& fd : message.fds) fds.push_back(fd.get());
    CUSPAN_ASSIGN_OR_RETURN(const std::size_t part,
                            SendPart(std::span(message.bytes).subspan(message.sent), fds));
    if (part == 0) return Status::Ok();
    message.fds.clear();
    message.sent += part;
    if (message.sent == message.bytes.size()) kept_.pop_front();
  }
  return Status::Ok();
}

Status ControlSocket::ReadMore() {
  // Not on the stack: a program's thread may have only 24 KiB.
  constexpr std::size_t kChunkBytes = 16 * 1024;
  const auto chunk = std::make_unique_for_overwrite<std::byte[]>(kChunkBytes);
  iovec part{chunk.get(), kChunkBytes};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxFds)];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t received = 0;
  do {
    received = ::recvmsg(fd_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (received < 0 && errno == EINTR);
  if (received < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Status::Ok();
  if (received < 0)
    return Status::Unavailable("receiving a control message: {}", std::strerror(errno));
  if (received == 0) return Status::Unavailable("the other side closed the connection");
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
      fds_.emplace_back(fd);
    }
  }
  if (fds_.size() > most_waiting_fds_)
    return Status::Invalid("{} unexpected file descriptors arrived", fds_.size());
  buffer_.insert(buffer_.end(), chunk.get(), chunk.get() + received);
  return Status::Ok();
}

Result<std::optional<ControlSocket::Message>> ControlSocket::TryReceive() {
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (buffer_.size() >= sizeof(FrameHeader)) {
      FrameHeader header;
      std::memcpy(&header, buffer_.data(), sizeof header);
      // Checks the header first: a false length must not block the receiver for ever.
      CUSPAN_RETURN_IF_ERROR(CheckFrameHeader(header, kMaxControlBytes));
      const std::size_t whole = sizeof header + header.payload_bytes;
      if (buffer_.size() >= whole) {
        CUSPAN_ASSIGN_OR_RETURN(Frame checked, ParseFrame(buffer_, kMaxControlBytes));
        Message message;
        message.bytes.assign(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(whole));
        buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(whole));
        message.frame = {checked.header, Bytes(message.bytes).subspan(sizeof header)};
        return std::optional<Message>(std::move(message));
      }
    }
    if (attempt == 0) CUSPAN_RETURN_IF_ERROR(ReadMore());
  }
  return std::optional<Message>();
}

Result<ControlSocket::Message> ControlSocket::Receive(std::chrono::milliseconds limit,
                                                      const char* what) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  for (;;) {
    CUSPAN_ASSIGN_OR_RETURN(std::optional<Message> message, TryReceive());
    if (message.has_value()) return std::move(*message);
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0)
      return Status::Unavailable("no {} arrived within {} ms", what, limit.count());
    pollfd waited{fd_.get(), POLLIN, 0};
    ::poll(&waited, 1, static_cast<int>(left.count()));
  }
}

UniqueFd ControlSocket::ExtractFd() {
  if (fds_.empty()) return {};
  UniqueFd fd = std::move(fds_.front());
  fds_.pop_front();
  return fd;
}

Result<ControlListener> ControlListener::Listen(const std::string& address) {
  CUSPAN_ASSIGN_OR_RETURN(auto target, AbstractAddress(address));
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return Status::Internal("socket: {}", std::strerror(errno));
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&target.first), target.second) != 0 ||
      ::listen(fd.get(), 128) != 0)
    return Status::Invalid("listening at '{}': {}", address, std::strerror(errno));
  return ControlListener(std::move(fd));
}

Result<std::optional<UniqueFd>> ControlListener::TryAccept() {
  UniqueFd fd(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (fd.valid()) return std::optional<UniqueFd>(std::move(fd));
  switch (errno) {
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
      return Status::Exhausted("accept: {}", std::strerror(errno));
    case EPERM:
    case ENOSYS:
      return Status::Refused(
          "no connection can be accepted: accept4: {}: a filter of system calls (seccomp) forbids "
          "it",
          std::strerror(errno));
    default:
      // No connection is waiting, or the peer has closed it. accept(2) lists the errors of
      // connections to be treated this way. The listening socket itself can not cause any of these
      // errors.
      return std::optional<UniqueFd>();
  }
}

}  // namespace cuspan

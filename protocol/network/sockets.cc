#include "protocol/network/sockets.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

namespace cuspan::net {
namespace {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
};

SocketAddress ToSocket(const Address& address) {
  SocketAddress made;
  if (address.family == AF_INET) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = address.port;
    std::memcpy(&v4.sin_addr, address.bytes, sizeof(v4.sin_addr));
    std::memcpy(&made.storage, &v4, sizeof(v4));
    made.length = sizeof(v4);
  } else {
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = address.port;
    std::memcpy(&v6.sin6_addr, address.bytes, sizeof(v6.sin6_addr));
    std::memcpy(&made.storage, &v6, sizeof(v6));
    made.length = sizeof(v6);
  }
  return made;
}

Address FromSocket(const sockaddr* socket) {
  Address address;
  address.family = socket->sa_family;
  if (socket->sa_family == AF_INET) {
    sockaddr_in v4;
    std::memcpy(&v4, socket, sizeof(v4));
    address.port = v4.sin_port;
    std::memcpy(address.bytes, &v4.sin_addr, sizeof(v4.sin_addr));
  } else {
    sockaddr_in6 v6;
    std::memcpy(&v6, socket, sizeof(v6));
    address.port = v6.sin6_port;
    std::memcpy(address.bytes, &v6.sin6_addr, sizeof(v6.sin6_addr));
  }
  return address;
}

// NCCL_SOCKET_IFNAME, as described in NCCL's documentation.
class InterfaceChoice {
 public:
  explicit InterfaceChoice(const char* text) {
    std::string_view rest = text == nullptr ? "" : text;
    if (rest.starts_with('^')) excluded_ = true;
    if (excluded_) rest.remove_prefix(1);
    exact_ = rest.starts_with('=');
    if (exact_) rest.remove_prefix(1);
    while (!rest.empty()) {
      const std::size_t comma = std::min(rest.find(','), rest.size());
      if (comma > 0) names_.emplace_back(rest.substr(0, comma));
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
  }

  // Rank of an interface in the order of preference, lower is better; kNone if excluded.
  static constexpr std::size_t kNone = SIZE_MAX;
  std::size_t Rank(std::string_view name, bool loopback) const {
    for (std::size_t i = 0; i < names_.size(); ++i) {
      const bool matches = exact_ ? name == names_[i] : name.starts_with(names_[i]);
      if (matches) return excluded_ ? kNone : i;
    }
    if (!excluded_ && !names_.empty()) return kNone;
    if (loopback) return 2;
    return name.starts_with("docker") ? 1 : 0;
  }

 private:
  bool excluded_ = false, exact_ = false;
  std::vector<std::string> names_;
};

// Calls visit(address, name, loopback) for each address of an interface that is up, except
// link-local ones.
template <typename Visit>
Status ForEachInterface(Visit&& visit) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0)
    return Status::Internal("the network interfaces of this host cannot be listed: {}",
                            std::strerror(errno));
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, &::freeifaddrs);
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || (one->ifa_flags & IFF_UP) == 0) continue;
    const int family = one->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    // Link-local addresses are meaningless on other hosts.
    const Address found = FromSocket(one->ifa_addr);
    if (family == AF_INET6 && found.bytes[0] == 0xfe && (found.bytes[1] & 0xc0) == 0x80) continue;
    visit(found, one->ifa_name, (one->ifa_flags & IFF_LOOPBACK) != 0);
  }
  return Status::Ok();
}

Result<Address> OwnAddress() {
  const char* const wanted = std::getenv("NCCL_SOCKET_IFNAME");
  const InterfaceChoice choice(wanted);
  Address best;
  std::size_t best_rank = InterfaceChoice::kNone;
  CUSPAN_RETURN_IF_ERROR(ForEachInterface([&](const Address& found, const char* name,
                                              bool loopback) {
    const std::size_t rank = choice.Rank(name, loopback);
    // IPv4 before IPv6 on the same interface.
    const bool better = rank < best_rank || (rank == best_rank && rank != InterfaceChoice::kNone &&
                                             found.family == AF_INET && best.family == AF_INET6);
    if (!better) return;
    best_rank = rank;
    best = found;
  }));
  if (best_rank != InterfaceChoice::kNone) return best;
  if (wanted == nullptr) return Status::NotFound("this host has no network interface that is up");
  return Status::NotFound("this host has no network interface of NCCL_SOCKET_IFNAME={}", wanted);
}

Status Gone(const char* what) { return Status::Unavailable("{}: {}", what, std::strerror(errno)); }

void SendAtOnce(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

}  // namespace

std::string HostText(const Address& address) {
  char text[INET6_ADDRSTRLEN] = "?";
  ::inet_ntop(address.family, address.bytes, text, sizeof(text));
  return text;
}

std::string Text(const Address& address) {
  const std::string text = HostText(address);
  const int port = ntohs(address.port);
  return address.family == AF_INET6 ? Format("[{}]:{}", text, port) : Format("{}:{}", text, port);
}

Result<Address> ParseAddress(std::string_view text) {
  const auto invalid = [text] {
    return Status::Invalid("'{}' is not an address with a port", text);
  };
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return invalid();
  std::string host(text.substr(0, colon));
  const std::string_view digits = text.substr(colon + 1);
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), port);
  if (error != std::errc() || end != digits.end()) return invalid();
  Address address;
  address.port = htons(port);
  const bool v6 = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (v6) host = host.substr(1, host.size() - 2);
  address.family = v6 ? AF_INET6 : AF_INET;
  if (::inet_pton(address.family, host.c_str(), address.bytes) != 1) return invalid();
  return address;
}

bool IsLoopback(const Address& address) {
  if (address.family == AF_INET) return address.bytes[0] == 127;
  return std::all_of(address.bytes, address.bytes + 15,
                     [](std::uint8_t byte) { return byte == 0; }) &&
         address.bytes[15] == 1;
}

Result<std::vector<Address>> OwnAddresses(std::uint16_t port) {
  std::vector<Address> far;
  std::vector<Address> near;
  CUSPAN_RETURN_IF_ERROR(ForEachInterface([&](Address found, const char*, bool loopback) {
    found.port = port;
    (loopback ? near : far).push_back(found);
  }));
  far.insert(far.end(), near.begin(), near.end());
  return far;
}

int PollTimeout(Deadline deadline) {
  if (deadline == kNever) return -1;
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, INT_MAX));
}

Result<std::shared_ptr<Interrupt>> Interrupt::Make(std::string why) {
  const std::shared_ptr<Interrupt> made(
      new Interrupt(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), std::move(why)));
  if (made->fd() < 0) return Status::Exhausted("eventfd: {}", std::strerror(errno));
  return made;
}

void Interrupt::Raise() {
  const std::uint64_t one = 1;
  // Fails only if it is already raised.
  [[maybe_unused]] const auto written = ::write(fd_.get(), &one, sizeof(one));
}

bool Interrupt::raised() const {
  pollfd entry{.fd = fd_.get(), .events = POLLIN, .revents = 0};
  return ::poll(&entry, 1, 0) > 0;
}

Status AwaitEvents(int fd, short events, const Interrupt& interrupt, Deadline deadline) {
  while (true) {
    pollfd entries[] = {{.fd = fd, .events = events, .revents = 0},
                        {.fd = interrupt.fd(), .events = POLLIN, .revents = 0}};
    const int count = ::poll(entries, 2, PollTimeout(deadline));
    if (count < 0 && errno != EINTR) return Gone("waiting for a connection");
    if (count == 0) return Status::Unavailable("the other side did not answer in time");
    if (count < 0) continue;
    if (entries[1].revents != 0) return Status::Unavailable("{}", interrupt.why());
    if (entries[0].revents != 0) return Status::Ok();
  }
}

Status SendAll(int fd, const void* data, std::size_t bytes, const Interrupt& interrupt,
               Deadline deadline) {
  const auto* next = static_cast<const std::byte*>(data);
  while (bytes > 0) {
    const ssize_t sent = ::send(fd, next, bytes, MSG_NOSIGNAL);
    if (sent > 0) {
      next += sent;
      bytes -= static_cast<std::size_t>(sent);
    } else if (errno == EAGAIN) {
      CUSPAN_RETURN_IF_ERROR(AwaitEvents(fd, POLLOUT, interrupt, deadline));
    } else if (errno != EINTR) {
      return Gone("sending");
    }
  }
  return Status::Ok();
}

Status ReceiveAll(int fd, void* data, std::size_t bytes, const Interrupt& interrupt,
                  Deadline deadline) {
  auto* next = static_cast<std::byte*>(data);
  while (bytes > 0) {
    const ssize_t received = ::recv(fd, next, bytes, 0);
    if (received > 0) {
      next += received;
      bytes -= static_cast<std::size_t>(received);
    } else if (received == 0) {
      return Status::Unavailable("the other side closed the connection");
    } else if (errno == EAGAIN) {
      CUSPAN_RETURN_IF_ERROR(AwaitEvents(fd, POLLIN, interrupt, deadline));
    } else if (errno != EINTR) {
      return Gone("receiving");
    }
  }
  return Status::Ok();
}

Result<Listener> Listener::Open(int backlog) {
  CUSPAN_ASSIGN_OR_RETURN(Address address, OwnAddress());
  address.port = 0;
  return OpenAt(address, backlog);
}

Result<Listener> Listener::OpenOnAll(int backlog) {
  Address any;
  any.family = AF_INET6;  // Also IPv4, unless the host has no IPv6.
  Result<Listener> opened = OpenAt(any, backlog);
  if (opened.ok()) return opened;
  any.family = AF_INET;
  return OpenAt(any, backlog);
}

Result<Listener> Listener::OpenAt(const Address& address, int backlog) {
  Listener listener;
  listener.fd_ = UniqueFd(::socket(address.family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  SocketAddress place = ToSocket(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&place.storage);
  // Overrides the host's default (net.ipv6.bindv6only).
  if (const int off = 0; address.family == AF_INET6)
    ::setsockopt(listener.fd_.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  if (!listener.fd_.valid() || ::bind(listener.fd_.get(), generic, place.length) != 0 ||
      ::listen(listener.fd_.get(), std::max(backlog, 1)) != 0 ||
      ::getsockname(listener.fd_.get(), generic, &place.length) != 0)
    return Status::Internal("cannot listen on {}: {}", Text(address), std::strerror(errno));
  listener.address_ = FromSocket(generic);
  return listener;
}

Result<UniqueFd> Listener::Accept() const {
  UniqueFd fd(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (fd.valid()) {
    SendAtOnce(fd.get());
  } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
    return Status::Exhausted("a connection cannot be accepted: {}", std::strerror(errno));
  }
  return fd;  // Invalid if the peer has already closed it.
}

Result<UniqueFd> Connect(const Address& address, const Interrupt& interrupt, Deadline deadline) {
  if (address.family != AF_INET && address.family != AF_INET6)
    return Status::Invalid("an address is of family {}, neither IPv4 nor IPv6", address.family);
  const SocketAddress place = ToSocket(address);
  UniqueFd fd(::socket(address.family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return Status::Exhausted("socket: {}", std::strerror(errno));
  SendAtOnce(fd.get());
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&place.storage), place.length) != 0) {
    if (errno != EINPROGRESS)
      return Status::Unavailable("{} cannot be reached: {}", Text(address), std::strerror(errno));
    CUSPAN_RETURN_IF_ERROR(AwaitEvents(fd.get(), POLLOUT, interrupt, deadline));
    int error = 0;
    socklen_t size = sizeof(error);
    ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0)
      return Status::Unavailable("{} cannot be reached: {}", Text(address), std::strerror(error));
  }
  return fd;
}

}  // namespace cuspan::net

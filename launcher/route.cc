#include "launcher/route.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "common/unique_fd.h"

namespace cuspan {
namespace {

// Whether the two are the same address, whatever their ports.
bool SameAddress(const sockaddr_storage& one, const sockaddr* other) {
  if (other == nullptr || one.ss_family != other->sa_family) return false;
  if (one.ss_family == AF_INET) {
    sockaddr_in a, b;
    std::memcpy(&a, &one, sizeof(a));
    std::memcpy(&b, other, sizeof(b));
    return a.sin_addr.s_addr == b.sin_addr.s_addr;
  }
  if (one.ss_family != AF_INET6) return false;
  sockaddr_in6 a, b;
  std::memcpy(&a, &one, sizeof(a));
  std::memcpy(&b, other, sizeof(b));
  return std::memcmp(&a.sin6_addr, &b.sin6_addr, sizeof(a.sin6_addr)) == 0;
}

bool IsLoopback(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    sockaddr_in four;
    std::memcpy(&four, &address, sizeof(four));
    return ntohl(four.sin_addr.s_addr) >> 24 == 127;
  }
  sockaddr_in6 six;
  std::memcpy(&six, &address, sizeof(six));
  return address.ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&six.sin6_addr);
}

// The interface that has the address, unless it is the loopback.
std::string InterfaceOf(const sockaddr_storage& address) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return "";
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, &::freeifaddrs);
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (SameAddress(address, one->ifa_addr))
      return (one->ifa_flags & IFF_LOOPBACK) != 0 ? "" : one->ifa_name;
  }
  return "";
}

}  // namespace

Result<std::string> RouteTowards(const std::string& host) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(host.c_str(), "9", &wanted, &found); error != 0)
    return Status::NotFound("host {} is not known here: {}", host, ::gai_strerror(error));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, &::freeaddrinfo);
  bool own_host = false;
  int error = 0;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    const UniqueFd socket(::socket(one->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    // Nothing is sent: the kernel only chooses the way.
    if (!socket.valid() || ::connect(socket.get(), one->ai_addr, one->ai_addrlen) != 0) {
      error = errno;
      continue;
    }
    sockaddr_storage own{};
    socklen_t length = sizeof(own);
    if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &length) != 0) continue;
    if (SameAddress(own, one->ai_addr) || IsLoopback(own)) {
      own_host = true;
      continue;
    }
    if (std::string name = InterfaceOf(own); !name.empty()) return name;
  }
  if (own_host) return std::string();
  return Status::NotFound("there is no way to host {}: {}", host, std::strerror(error));
}

std::string InterfaceWith(const net::Address& address) {
  sockaddr_storage own{};
  own.ss_family = address.family;
  if (address.family == AF_INET) {
    sockaddr_in four{};
    four.sin_family = AF_INET;
    std::memcpy(&four.sin_addr, address.bytes, sizeof four.sin_addr);
    std::memcpy(&own, &four, sizeof four);
  } else {
    sockaddr_in6 six{};
    six.sin6_family = AF_INET6;
    std::memcpy(&six.sin6_addr, address.bytes, sizeof six.sin6_addr);
    std::memcpy(&own, &six, sizeof six);
  }
  return InterfaceOf(own);
}

std::string InterfaceTowards(const std::string& host) {
  Result<std::string> interface = RouteTowards(host);
  return interface.ok() ? std::move(*interface) : std::string();
}

}  // namespace cuspan

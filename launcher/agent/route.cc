#include "launcher/agent/route.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>
#include <memory>

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

std::string InterfaceTowards(const std::string& host) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), "9", &wanted, &found) != 0) return "";
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, &::freeaddrinfo);
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    const UniqueFd socket(::socket(one->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    // Nothing is sent: the kernel only chooses the way.
    if (!socket.valid() || ::connect(socket.get(), one->ai_addr, one->ai_addrlen) != 0) continue;
    sockaddr_storage own{};
    socklen_t length = sizeof(own);
    if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &length) != 0) continue;
    if (std::string name = InterfaceOf(own); !name.empty()) return name;
  }
  return "";
}

}  // namespace cuspan

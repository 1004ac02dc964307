#include "launcher/host/route.h"

#include <ifaddrs.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "common/unique_fd.h"

namespace cuspan {
namespace {

// Number of bytes of an address of either family.
std::size_t BytesOf(sa_family_t family) { return family == AF_INET ? 4 : 16; }

net::Address AddressOf(const sockaddr* address) {
  net::Address own;
  own.family = address->sa_family;
  if (own.family == AF_INET) {
    sockaddr_in four;
    std::memcpy(&four, address, sizeof four);
    std::memcpy(own.bytes, &four.sin_addr, sizeof four.sin_addr);
  } else {
    sockaddr_in6 six;
    std::memcpy(&six, address, sizeof six);
    std::memcpy(own.bytes, &six.sin6_addr, sizeof six.sin6_addr);
  }
  return own;
}

// Request to the kernel: rtnetlink(7), RTM_GETROUTE.
struct RouteQuestion {
  nlmsghdr header{};
  rtmsg route{};
  rtattr attribute{};
  std::uint8_t address[16] = {};
};

// Name of the interface the kernel would use for the address; empty for an address of this host.
Result<std::string> AskKernel(const net::Address& address) {
  const UniqueFd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  if (!socket.valid()) return Status::Internal("netlink: {}", std::strerror(errno));
  const std::size_t bytes = BytesOf(address.family);
  RouteQuestion question;
  question.route.rtm_family = static_cast<unsigned char>(address.family);
  question.route.rtm_dst_len = static_cast<unsigned char>(bytes * 8);
  question.attribute.rta_type = RTA_DST;
  question.attribute.rta_len = static_cast<unsigned short>(RTA_LENGTH(bytes));
  std::memcpy(question.address, address.bytes, bytes);
  question.header.nlmsg_len =
      static_cast<std::uint32_t>(NLMSG_LENGTH(sizeof(rtmsg)) + RTA_LENGTH(bytes));
  question.header.nlmsg_type = RTM_GETROUTE;
  question.header.nlmsg_flags = NLM_F_REQUEST;
  if (::send(socket.get(), &question, question.header.nlmsg_len, 0) < 0)
    return Status::Internal("netlink: {}", std::strerror(errno));
  alignas(nlmsghdr) char answer[4096];
  const ssize_t got = ::recv(socket.get(), answer, sizeof answer, 0);
  if (got < 0) return Status::Internal("netlink: {}", std::strerror(errno));
  const auto* header = reinterpret_cast<const nlmsghdr*>(answer);
  if (!NLMSG_OK(header, static_cast<std::uint32_t>(got)))
    return Status::Internal("netlink: malformed answer of {} bytes", got);
  if (header->nlmsg_type == NLMSG_ERROR) {
    const auto* error = static_cast<const nlmsgerr*>(NLMSG_DATA(header));
    return Status::NotFound("{}", std::strerror(-error->error));
  }
  const auto* route = static_cast<const rtmsg*>(NLMSG_DATA(header));
  if (route->rtm_type == RTN_LOCAL) return std::string();
  auto rest = static_cast<int>(RTM_PAYLOAD(header));
  for (const rtattr* one = RTM_RTA(route); RTA_OK(one, rest); one = RTA_NEXT(one, rest)) {
    if (one->rta_type != RTA_OIF) continue;
    int index = 0;
    std::memcpy(&index, RTA_DATA(one), sizeof index);
    char name[IF_NAMESIZE];
    if (::if_indextoname(static_cast<unsigned>(index), name) == nullptr) break;
    return std::string(name);
  }
  return Status::NotFound("no interface has a route there");
}

}  // namespace

Result<std::vector<Route>> RoutesTowards(const std::string& host) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(host.c_str(), "9", &wanted, &found); error != 0)
    return Status::NotFound("the name of host {} cannot be resolved: {}", host,
                            ::gai_strerror(error));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, &::freeaddrinfo);
  std::vector<Route> routes;
  Status problem;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    if (one->ai_family != AF_INET && one->ai_family != AF_INET6) continue;
    const net::Address address = AddressOf(one->ai_addr);
    Result<std::string> interface = AskKernel(address);
    if (interface.ok())
      routes.push_back({net::HostText(address), std::move(*interface)});
    else
      problem = interface.status();
  }
  if (!routes.empty()) return routes;
  return Status::NotFound("there is no route to host {}: {}", host, problem.message());
}

std::string InterfaceTowards(const std::string& host) {
  Result<std::vector<Route>> routes = RoutesTowards(host);
  return routes.ok() ? std::move(routes->front().interface) : std::string();
}

std::string InterfaceWith(const net::Address& address) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return "";
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, &::freeifaddrs);
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != address.family) continue;
    const net::Address own = AddressOf(one->ifa_addr);
    if (std::equal(own.bytes, own.bytes + BytesOf(own.family), address.bytes))
      return (one->ifa_flags & IFF_LOOPBACK) != 0 ? "" : one->ifa_name;
  }
  return "";
}

}  // namespace cuspan

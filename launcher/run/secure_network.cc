#include "launcher/run/secure_network.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <utility>

#include "common/settings.h"
#include "launcher/host/own_host.h"
#include "launcher/host/route.h"
#include "protocol/network/sockets.h"

namespace cuspan {
namespace {

// Limit of the kernel (IFNAMSIZ).
constexpr std::size_t kMaxOfInterface = 15;

bool IsInterfaceName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxOfInterface && name != "." && name != ".." &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return c > ' ' && c < 127 && c != '/' && c != ':'; });
}

// Longest prefix of a network with at least two hosts.
constexpr int kMaxBits = 30;

// Non-empty parts between `separator`s.
std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    if (end > 0) parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

// All addresses of these interfaces of this host, except link-local ones.
Result<std::vector<std::string>> AddressesOf(const std::set<std::string>& interfaces) {
  CUSPAN_ASSIGN_OR_RETURN(const std::vector<net::Address> addresses, net::OwnAddresses(0));
  std::vector<std::string> texts;
  for (const net::Address& address : addresses) {
    const bool link_local =
        address.family == AF_INET6 && address.bytes[0] == 0xfe && (address.bytes[1] & 0xc0) == 0x80;
    if (!link_local && interfaces.contains(InterfaceWith(address)))
      texts.push_back(net::HostText(address));
  }
  return texts;
}

Status NotEncrypted(const std::string& host, const std::string& interface,
                    const SecurePolicy& policy) {
  return Status::Refused(
      "--secure {}: host {} is reached by {}, {}: name hosts by their addresses in an encrypted "
      "network, such as WireGuard's{}",
      SecureText(policy), host, interface,
      policy.interfaces.empty() ? "not by an interface of WireGuard"
                                : "not by one of these interfaces",
      policy.interfaces.empty() ? ", or, if it encrypts, name it: --secure " + interface : "");
}

}  // namespace

Result<SecurePolicy> ParseSecure(std::string_view text) {
  SecurePolicy policy;
  if (text == "off") return policy;
  policy.on = true;
  if (text == "auto") return policy;
  while (true) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const std::string_view name = text.substr(0, comma);
    if (!IsInterfaceName(name))
      return Status::Invalid(
          "secure must be off, auto (interfaces of WireGuard), or names of interfaces that "
          "encrypt, such as wg0,tun0; not '{}'",
          name);
    policy.interfaces.emplace_back(name);
    if (comma == text.size()) return policy;
    text.remove_prefix(comma + 1);
  }
}

std::string SecureText(const SecurePolicy& policy) {
  if (!policy.on) return "off";
  std::string text;
  for (const std::string& name : policy.interfaces) text += (text.empty() ? "" : ",") + name;
  return text.empty() ? "auto" : text;
}

Result<SecurePolicy> SecureFromSettings() { return ParseSecure(SettingText(settings::kSecure)); }

bool Encrypts(const std::string& interface, const SecurePolicy& policy,
              const std::filesystem::path& interfaces) {
  if (!policy.interfaces.empty())
    return std::find(policy.interfaces.begin(), policy.interfaces.end(), interface) !=
           policy.interfaces.end();
  // drivers/net/wireguard/device.c of Linux
  std::ifstream about(interfaces / interface / "uevent");
  for (std::string line; std::getline(about, line);)
    if (line == "DEVTYPE=wireguard") return true;
  return false;
}

Result<SecureHosts> FindSecureHosts(const std::vector<std::string>& named,
                                    const SecurePolicy& policy) {
  SecureHosts hosts(1);
  std::set<std::string> interfaces;
  for (const std::string& host : named) {
    const Result<std::vector<Route>> routes = RoutesTowards(host);
    if (!routes.ok())
      return Status::NotFound("--secure {}: {}", SecureText(policy), routes.status().message());
    if (routes->front().interface.empty()) continue;  // Another name of this host.
    std::vector<std::string> addresses;
    for (const Route& route : *routes) {
      if (!Encrypts(route.interface, policy)) continue;
      addresses.push_back(route.address);
      interfaces.insert(route.interface);
    }
    if (addresses.empty()) return NotEncrypted(host, routes->front().interface, policy);
    hosts.push_back(std::move(addresses));
  }
  // No traffic leaves this host.
  if (hosts.size() == 1) return SecureHosts();
  CUSPAN_ASSIGN_OR_RETURN(hosts.front(), AddressesOf(interfaces));
  return hosts;
}

std::string SecureHostsText(const SecureHosts& hosts) {
  std::string text;
  for (const std::vector<std::string>& addresses : hosts) {
    if (!text.empty()) text += ';';
    for (std::size_t i = 0; i < addresses.size(); ++i) text += (i == 0 ? "" : ",") + addresses[i];
  }
  return text;
}

SecureHosts ParseSecureHosts(std::string_view text) {
  SecureHosts hosts;
  for (const std::string& host : Split(text, ';')) hosts.push_back(Split(host, ','));
  return hosts;
}

Result<std::set<std::string>> SecureInterfaces(const SecureHosts& hosts,
                                               const SecurePolicy& policy) {
  std::set<std::string> interfaces;
  for (const std::vector<std::string>& addresses : hosts) {
    std::set<std::string> ways;
    bool own = false;
    Status problem;
    for (const std::string& address : addresses) {
      const Result<std::vector<Route>> routes = RoutesTowards(address);
      if (!routes.ok()) {
        problem = Status::Refused("--secure {}: {}", SecureText(policy), routes.status().message());
      } else if (routes->front().interface.empty()) {
        own = true;
      } else if (Encrypts(routes->front().interface, policy)) {
        ways.insert(routes->front().interface);
      } else {
        problem = NotEncrypted(address, routes->front().interface, policy);
      }
    }
    if (own) continue;
    if (ways.empty() && !problem.ok()) return problem;
    interfaces.merge(ways);
  }
  return interfaces;
}

Result<std::vector<std::string>> NetworksOf(const std::string& interface) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0)
    return Status::Internal("interfaces cannot be listed: {}", std::strerror(errno));
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, &::freeifaddrs);
  std::vector<std::string> networks;
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (one->ifa_name != interface || one->ifa_addr == nullptr || one->ifa_netmask == nullptr ||
        one->ifa_addr->sa_family != AF_INET)
      continue;
    sockaddr_in own, mask;
    std::memcpy(&own, one->ifa_addr, sizeof own);
    std::memcpy(&mask, one->ifa_netmask, sizeof mask);
    own.sin_addr.s_addr &= mask.sin_addr.s_addr;
    const int bits = std::popcount(mask.sin_addr.s_addr);
    char text[INET_ADDRSTRLEN];
    if (bits <= kMaxBits && ::inet_ntop(AF_INET, &own.sin_addr, text, sizeof text) != nullptr)
      networks.push_back(Format("{}/{}", text, bits));
  }
  if (networks.empty())
    return Status::Refused(
        "--secure: Open MPI needs an IPv4 address of {} in the network of the other hosts, such as "
        "10.8.0.1/24: add one, or use --relay ucx",
        interface);
  return networks;
}

Result<std::set<std::string>> SecureInterfacesOfRun() {
  CUSPAN_ASSIGN_OR_RETURN(const SecurePolicy policy, SecureFromSettings());
  const char* const hosts = std::getenv(kSecureHostsVariable);
  if (!policy.on || hosts == nullptr) return std::set<std::string>();
  Result<std::set<std::string>> interfaces = SecureInterfaces(ParseSecureHosts(hosts), policy);
  if (interfaces.ok()) return interfaces;
  return Status::Refused("on host {}: {}", OwnHostName(), interfaces.status().message());
}

bool IsSecurePathMessage(std::string_view message) {
  return message.starts_with("on host ") && message.find(": --secure ") != std::string_view::npos;
}

}  // namespace cuspan

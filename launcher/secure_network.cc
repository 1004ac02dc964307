#include "launcher/secure_network.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>

#include "common/settings.h"
#include "launcher/route.h"

namespace cuspan {
namespace {

// As the kernel limits it (IFNAMSIZ).
constexpr std::size_t kMostOfInterface = 15;

bool IsInterfaceName(std::string_view name) {
  return !name.empty() && name.size() <= kMostOfInterface && name != "." && name != ".." &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return c > ' ' && c < 127 && c != '/' && c != ':'; });
}

// "10.8.0.0/24"; empty for what is no address with a mask.
std::string NetworkOf(const sockaddr* address, const sockaddr* mask) {
  if (address == nullptr || mask == nullptr || address->sa_family != AF_INET) return {};
  sockaddr_in own, bits;
  std::memcpy(&own, address, sizeof own);
  std::memcpy(&bits, mask, sizeof bits);
  own.sin_addr.s_addr &= bits.sin_addr.s_addr;
  char text[INET_ADDRSTRLEN];
  if (::inet_ntop(AF_INET, &own.sin_addr, text, sizeof text) == nullptr) return {};
  return Format("{}/{}", text, std::popcount(bits.sin_addr.s_addr));
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

Result<std::string> SecureInterfaceTowards(const std::string& host, const SecurePolicy& policy) {
  const Result<std::string> interface = RouteTowards(host);
  if (!interface.ok())
    return Status::NotFound("--secure {}: {}", SecureText(policy), interface.status().message());
  if (interface->empty() || Encrypts(*interface, policy)) return *interface;
  return Status::Refused(
      "--secure {}: host {} is reached by {}, which {}: name hosts by their addresses in a network "
      "that encrypts, such as WireGuard's{}",
      SecureText(policy), host, *interface,
      policy.interfaces.empty() ? "is no interface of WireGuard" : "is none of these",
      policy.interfaces.empty() ? ", or, if it encrypts, name it: --secure " + *interface : "");
}

Result<std::vector<std::string>> NetworksOf(const std::string& interface) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0)
    return Status::Internal("interfaces cannot be listed: {}", std::strerror(errno));
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, &::freeifaddrs);
  std::vector<std::string> networks;
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (one->ifa_name != interface) continue;
    if (std::string network = NetworkOf(one->ifa_addr, one->ifa_netmask); !network.empty())
      networks.push_back(std::move(network));
  }
  if (networks.empty())
    return Status::NotFound(
        "--secure: {} has no IPv4 address, which Open MPI needs: give it one, or use --relay ucx",
        interface);
  return networks;
}

}  // namespace cuspan

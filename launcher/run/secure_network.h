// --secure: restricts all traffic of a run between hosts to interfaces with encryption.
//
// cuspan does not encrypt itself (docs/security.md has the figures behind this). The launcher
// determines the interface towards each host named by the user, and refuses hosts behind interfaces
// not known to encrypt. It passes the addresses found to all agents, including its own host's. Each
// agent determines its interfaces towards these addresses, and restricts its transport to them.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace cuspan {

struct SecurePolicy {
  bool on = false;
  // Interfaces declared by the user to encrypt; empty: WireGuard's, as reported by the kernel.
  std::vector<std::string> interfaces;

  bool operator==(const SecurePolicy&) const = default;
};

// Parses "off", "auto", or names of interfaces: "wg0,ipsec0". kInvalid names the wrong part.
Result<SecurePolicy> ParseSecure(std::string_view text);
std::string SecureText(const SecurePolicy& policy);
// Policy of CUSPAN_SECURE.
Result<SecurePolicy> SecureFromSettings();

// True if traffic over this interface of this host counts as encrypted. `interfaces` is the
// kernel's folder of interfaces.
bool Encrypts(const std::string& interface, const SecurePolicy& policy,
              const std::filesystem::path& interfaces = "/sys/class/net");

// Hosts of a run, each with its addresses in networks with encryption.
using SecureHosts = std::vector<std::vector<std::string>>;

// Addresses of this host and of the hosts `named` by the user; empty if all are this host. kRefused
// if an interface without encryption leads to one of them, kNotFound for an unknown name. May block
// for a name server.
Result<SecureHosts> FindSecureHosts(const std::vector<std::string>& named,
                                    const SecurePolicy& policy);

// Variable that passes them to agents: "10.8.0.1;10.8.0.2,fd00::2".
inline constexpr const char* kSecureHostsVariable = "CUSPAN_SECURE_HOSTS";
std::string SecureHostsText(const SecureHosts& hosts);
SecureHosts ParseSecureHosts(std::string_view text);

// This host's interfaces towards the other hosts of `hosts`; an entry with an address of this host
// is skipped. kRefused if no interface with encryption leads to one of them.
Result<std::set<std::string>> SecureInterfaces(const SecureHosts& hosts,
                                               const SecurePolicy& policy);
// Networks of this interface's IPv4 addresses, as "10.8.0.0/24". kRefused, with the remedy, if none
// of them has room for other hosts.
Result<std::vector<std::string>> NetworksOf(const std::string& interface);
// SecureInterfaces for an agent, from its environment; empty if the run may use any interface.
Result<std::set<std::string>> SecureInterfacesOfRun();
// True for a message about a missing encrypted path on an agent's host.
bool IsSecurePathMessage(std::string_view message);

}  // namespace cuspan

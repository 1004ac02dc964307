// --secure: nothing of a run goes from host to host but over interfaces that encrypt.
//
// cuspan encrypts nothing itself (docs/security.md has the figures behind that). The launcher looks
// by which interface each host is reached that the user has named, and refuses those that are not
// known to encrypt. It tells all agents the addresses that it has found, its own host's among them;
// each looks by which interface it reaches these, and keeps what brings its messages to those
// interfaces.
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
  // Those that the user says encrypt; none: WireGuard's, which the kernel tells.
  std::vector<std::string> interfaces;

  bool operator==(const SecurePolicy&) const = default;
};

// "off", "auto", or names of interfaces: "wg0,ipsec0". kInvalid names what is wrong.
Result<SecurePolicy> ParseSecure(std::string_view text);
std::string SecureText(const SecurePolicy& policy);
// Of CUSPAN_SECURE.
Result<SecurePolicy> SecureFromSettings();

// Whether what goes over that interface of this host counts as encrypted. `interfaces` is the
// kernel's folder of them.
bool Encrypts(const std::string& interface, const SecurePolicy& policy,
              const std::filesystem::path& interfaces = "/sys/class/net");

// The hosts of a run, each with its addresses in networks that encrypt.
using SecureHosts = std::vector<std::vector<std::string>>;

// Of this host, and of those that are `named` by the user; none where all are this one. kRefused
// when one of them is reached by an interface that does not encrypt, kNotFound when its name is not
// known. May wait for a name server.
Result<SecureHosts> FindSecureHosts(const std::vector<std::string>& named,
                                    const SecurePolicy& policy);

// How agents are told: "10.8.0.1;10.8.0.2,fd00::2".
inline constexpr const char* kSecureHostsVariable = "CUSPAN_SECURE_HOSTS";
std::string SecureHostsText(const SecureHosts& hosts);
SecureHosts ParseSecureHosts(std::string_view text);

// The interfaces of this host by which it reaches the others of `hosts`; a host that has one of
// their addresses is itself. kRefused when one is reached by none that encrypts.
Result<std::set<std::string>> SecureInterfaces(const SecureHosts& hosts,
                                               const SecurePolicy& policy);
// The networks of that interface's IPv4 addresses, as "10.8.0.0/24". kRefused, with what to do,
// where it has none that others can be in.
Result<std::vector<std::string>> NetworksOf(const std::string& interface);
// As SecureInterfaces, for an agent of a run, of its environment; none where the run may use any.
Result<std::set<std::string>> SecureInterfacesOfRun();
// Whether a message says that an agent's host lacks one.
bool IsOfSecurePath(std::string_view message);

}  // namespace cuspan

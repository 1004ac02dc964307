// --secure: nothing of a run goes from host to host but over interfaces that encrypt.
//
// cuspan encrypts nothing itself (docs/security.md has the figures behind that): it looks by which
// interface each host is reached, refuses those that are not known to encrypt, and keeps what
// brings its messages to the others.
#pragma once

#include <filesystem>
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

// The interface of this host by which `host`, a name or an address, is reached; empty for this host
// itself. kRefused when it does not encrypt, kNotFound when the name is not known. May wait for a
// name server.
Result<std::string> SecureInterfaceTowards(const std::string& host, const SecurePolicy& policy);

// The networks of that interface's addresses, as "10.8.0.0/24": what Open MPI takes in place of
// names, which may differ from host to host. kNotFound when it has none.
Result<std::vector<std::string>> NetworksOf(const std::string& interface);

}  // namespace cuspan

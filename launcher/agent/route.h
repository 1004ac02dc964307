// Which network leads to another host.
#pragma once

#include <string>

namespace cuspan {

// The name of this host's interface by which the kernel would reach a host of that name; empty
// where the name is not known, or leads to this host itself. May wait for a name server.
std::string InterfaceTowards(const std::string& host);

}  // namespace cuspan

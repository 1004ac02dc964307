// Which network leads to another host.
#pragma once

#include <string>
#include <vector>

#include "common/status.h"
#include "protocol/network/sockets.h"

namespace cuspan {

struct Route {
  std::string address;  // As a number.
  std::string
      interface;  // Of this host, by which the kernel reaches it; empty: it is this host's own.
};

// A route for each address of a host, which is a name or an address. kNotFound when there is no
// such host, or no way to it. May wait for a name server.
Result<std::vector<Route>> RoutesTowards(const std::string& host);

// The interface of the first of them; empty for this host itself, and where there is none.
std::string InterfaceTowards(const std::string& host);

// The interface of this host that has the address; empty for a loopback's, or none.
std::string InterfaceWith(const net::Address& address);

}  // namespace cuspan

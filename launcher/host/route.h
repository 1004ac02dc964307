// Networks leading to other hosts.
#pragma once

#include <string>
#include <vector>

#include "common/status.h"
#include "protocol/network/sockets.h"

namespace cuspan {

struct Route {
  std::string address;  // Numeric.
  std::string
      interface;  // This host's interface towards the address; empty: it is this host's own.
};

// A route for each address of a host, given by name or address. kNotFound if the host does not
// exist or is unreachable. May block for a name server.
Result<std::vector<Route>> RoutesTowards(const std::string& host);

// Interface of the first route; empty for this host itself, and if there is no route.
std::string InterfaceTowards(const std::string& host);

// This host's interface with the address; empty for a loopback interface, or none.
std::string InterfaceWith(const net::Address& address);

}  // namespace cuspan

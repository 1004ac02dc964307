// Which network leads to another host.
#pragma once

#include <string>

#include "common/status.h"
#include "protocol/network/sockets.h"

namespace cuspan {

// The name of this host's interface by which the kernel would reach a host of that name or address;
// empty for this host itself. kNotFound when there is no such host, or no way to it. May wait for a
// name server.
Result<std::string> RouteTowards(const std::string& host);

// The interface of this host that has the address; empty for a loopback's, or none.
std::string InterfaceWith(const net::Address& address);

// As RouteTowards; also empty where there is none.
std::string InterfaceTowards(const std::string& host);

}  // namespace cuspan

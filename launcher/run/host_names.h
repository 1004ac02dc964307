// Comparisons of host names. Two full names are one host's only if they are equal: hosts of two
// domains may have the same first label.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/run/plan.h"

namespace cuspan {

// True for "localhost", addresses of the loopback, and the node's own name.
bool IsThisHost(std::string_view host, std::string_view own_name);

// True for equal names, and for a short name and a full one that begins with it.
bool MayBeSameHost(std::string_view a, std::string_view b);

// The node of a list, whose elements have a `name`, that a host's name means: the one of that very
// name, otherwise the only one that may be the same host. nullptr if there is none, or several.
template <typename Nodes>
auto* FindHost(Nodes& nodes, std::string_view host) {
  auto* alike = decltype(nodes.data())(nullptr);
  bool several = false;
  for (auto& node : nodes) {
    if (node.name == host) return &node;
    if (!MayBeSameHost(node.name, host)) continue;
    several = alike != nullptr;
    alike = &node;
  }
  return several ? decltype(alike)(nullptr) : alike;
}

// True if both names are known here and share no address. May wait for a name server.
bool LeadApart(const std::string& a, const std::string& b);

// Renames the requests that mean this node to kThisHost. A name that is equal to the node's own up
// to the first dot counts if its addresses are the node's. May wait for a name server.
void RenameThisHost(std::vector<HostRequest>& hosts, std::string_view own_name);

}  // namespace cuspan

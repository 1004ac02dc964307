// Comparison of host names. Two full names denote one host only if they are equal: hosts of two
// domains may have the same first label.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/run/plan.h"

namespace cuspan {

// True for "localhost", loopback addresses, and the node's own name.
bool IsThisHost(std::string_view host, std::string_view own_name);

// True for equal names, and for a short name and a full one starting with it.
bool MayBeSameHost(std::string_view a, std::string_view b);

// Finds the node for a host's name in a list with elements having a `name`: the one with this exact
// name, else the only one that may be the same host. nullptr if there is none, or more than one.
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

// True if both names are known here and have no address in common. May block for a name server.
bool LeadApart(const std::string& a, const std::string& b);

// Renames requests for this node to kThisHost. A name equal to the node's own up to the first dot
// counts if its addresses are the node's. May block for a name server.
void RenameThisHost(std::vector<HostRequest>& hosts, std::string_view own_name);

}  // namespace cuspan

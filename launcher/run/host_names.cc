#include "launcher/run/host_names.h"

#include <algorithm>
#include <utility>

#include "launcher/host/route.h"

namespace cuspan {
namespace {

bool LeadsHere(const std::string& host) {
  const Result<std::vector<Route>> routes = RoutesTowards(host);
  return routes.ok() && std::all_of(routes->begin(), routes->end(),
                                    [](const Route& route) { return route.interface.empty(); });
}

}  // namespace

bool IsThisHost(std::string_view host, std::string_view own_name) {
  return host == kThisHost || host.starts_with("127.") || host == own_name;
}

bool MayBeSameHost(std::string_view a, std::string_view b) {
  if (a.size() > b.size()) std::swap(a, b);
  if (!b.starts_with(a)) return false;
  return a.size() == b.size() || (a.find('.') == std::string_view::npos && b[a.size()] == '.');
}

bool LeadApart(const std::string& a, const std::string& b) {
  if (a == b) return false;
  const Result<std::vector<Route>> ways = RoutesTowards(a);
  const Result<std::vector<Route>> others = RoutesTowards(b);
  if (!ways.ok() || !others.ok()) return false;
  return std::none_of(ways->begin(), ways->end(), [&others](const Route& one) {
    return std::any_of(others->begin(), others->end(),
                       [&one](const Route& other) { return other.address == one.address; });
  });
}

void RenameThisHost(std::vector<HostRequest>& hosts, std::string_view own_name) {
  for (HostRequest& request : hosts)
    if (IsThisHost(request.host, own_name) ||
        (MayBeSameHost(request.host, own_name) && LeadsHere(request.host)))
      request.host = kThisHost;
}

}  // namespace cuspan

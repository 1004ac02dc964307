// Channels between two proxies of a session, for copies between their devices.
//
// Both on this node: they share one channel, and this agent only introduces
// them. On two nodes: each agent gives its proxy a channel of its own and relays
// between the two, on a route of the join's, as it does for a client.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "launcher/agent/base/roles.h"
#include "launcher/agent/node/proxy_process.h"
#include "launcher/agent/relay/relay.h"

namespace cuspan {

// The route of a session's join, told from those of its devices.
inline constexpr std::uint32_t kJoinRoutes = 0x8000'0000;
inline RouteKey JoinRoute(std::uint32_t session, std::uint32_t join) {
  return {session, kJoinRoutes | join};
}
inline bool IsJoinRoute(RouteKey route) { return (route.context & kJoinRoutes) != 0; }

// One thread. A proxy that can not have a channel is told why; its client hears it from there.
class PeerChannels {
 public:
  // One end of a join: a device of the session, and its proxy on this node.
  struct End {
    RouteKey device;
    ProxyProcess* proxy;
  };

  // Both outlive it. `bell` is this agent's.
  PeerChannels(Bell& bell, ChannelLayout layout) : bell_(bell), layout_(layout) {}

  // Between two proxies of this node.
  void JoinHere(RouteKey route, const End& first, const End& second) CUSPAN_REQUIRES(agent_thread);
  // Between one of this node and one of the agent `rank`. That agent must be told before, if it
  // opens its own end later: what goes over the route follows.
  void JoinAway(Relay& relay, RouteKey route, const End& end, std::uint32_t rank)
      CUSPAN_REQUIRES(agent_thread);

  // The other device is gone: there will be no channel.
  static void Refuse(RouteKey route, const End& end) CUSPAN_REQUIRES(agent_thread);

  // The device's proxy is gone, or about to: ends its channels, and tells the other agents.
  void Forget(Relay* relay, RouteKey device) CUSPAN_REQUIRES(agent_thread);
  // The other end of a join is gone.
  void Close(Relay* relay, RouteKey route) CUSPAN_REQUIRES(agent_thread);
  // The agent at the other end of some is given up.
  void LoseAgent(Relay* relay, std::uint32_t rank) CUSPAN_REQUIRES(agent_thread);
  // The device of this node at the end of a route; the route broke.
  std::optional<RouteKey> DeviceOf(RouteKey route) const CUSPAN_REQUIRES(agent_thread);

 private:
  struct Joined {
    std::vector<RouteKey> devices;  // On this node.
    std::vector<Bell> bells;        // Of their proxies.
    std::shared_ptr<Channel> channel;
    std::optional<std::uint32_t> rank;  // Of the agent at the other end.
  };
  Result<Joined> MakeHere(RouteKey route, const End& first, const End& second)
      CUSPAN_REQUIRES(agent_thread);
  Result<Joined> MakeAway(RouteKey route, const End& end) CUSPAN_REQUIRES(agent_thread);
  static void Shut(Relay* relay, RouteKey route, Joined& joined) CUSPAN_REQUIRES(agent_thread);

  Bell& bell_;
  const ChannelLayout layout_;
  std::map<RouteKey, Joined> joined_;
};

}  // namespace cuspan

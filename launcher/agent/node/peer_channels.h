// Channels between two proxies of a session, for copies between their devices.
//
// If both are on this node, they share one channel, only set up by this agent. On two nodes, each
// agent gives its proxy a channel of its own. The agents relay between the two, on a route of the
// join, as for a client.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "launcher/agent/base/roles.h"
#include "launcher/agent/node/proxy_process.h"
#include "launcher/agent/relay/relay.h"

namespace cuspan {

// Route of a session's join, distinct from those of its devices.
inline constexpr std::uint32_t kJoinRoutes = 0x8000'0000;
inline RouteKey JoinRoute(std::uint32_t session, std::uint32_t join) {
  return {session, kJoinRoutes | join};
}
inline bool IsJoinRoute(RouteKey route) { return (route.context & kJoinRoutes) != 0; }

// Threads: one. If a proxy cannot have a channel, it gets the reason and reports it to its client.
class PeerChannels {
 public:
  // One end of a join: a device of the session, and its proxy on this node.
  struct End {
    RouteKey device;
    ProxyProcess* proxy;
  };

  // `bell`: this agent's; outlives the object.
  PeerChannels(Bell& bell, ChannelLayout layout) : bell_(bell), layout_(layout) {}

  // Connects two proxies of this node.
  void JoinHere(RouteKey route, const End& first, const End& second) CUSPAN_REQUIRES(agent_thread);
  // Connects a proxy of this node with one of agent `rank`. If that agent opens its end later, it
  // must be notified before this call: the route's frames follow.
  void JoinRemote(Relay& relay, RouteKey route, const End& end, std::uint32_t rank)
      CUSPAN_REQUIRES(agent_thread);

  // Notifies a proxy of the other device's loss: there will be no channel.
  static void Refuse(RouteKey route, const End& end) CUSPAN_REQUIRES(agent_thread);

  // Closes the channels of a device whose proxy has ended or is about to, and notifies the other
  // agents.
  void Forget(Relay* relay, RouteKey device) CUSPAN_REQUIRES(agent_thread);
  // Closes a channel after the other end is gone.
  void Close(Relay* relay, RouteKey route) CUSPAN_REQUIRES(agent_thread);
  // Closes the channels to an agent given up.
  void LoseAgent(Relay* relay, std::uint32_t rank) CUSPAN_REQUIRES(agent_thread);
  // The device of this node on a broken route.
  std::optional<RouteKey> DeviceOf(RouteKey route) const CUSPAN_REQUIRES(agent_thread);

 private:
  struct Joined {
    std::vector<RouteKey> devices;  // Devices on this node.
    std::vector<Bell> bells;        // Bells of their proxies.
    std::shared_ptr<Channel> channel;
    std::optional<std::uint32_t> rank;  // Agent at the other end, if any.
  };
  Result<Joined> MakeHere(RouteKey route, const End& first, const End& second)
      CUSPAN_REQUIRES(agent_thread);
  Result<Joined> MakeRemote(RouteKey route, const End& end) CUSPAN_REQUIRES(agent_thread);
  static void Shut(Relay* relay, RouteKey route, Joined& joined) CUSPAN_REQUIRES(agent_thread);

  Bell& bell_;
  const ChannelLayout layout_;
  std::map<RouteKey, Joined> joined_;
};

}  // namespace cuspan

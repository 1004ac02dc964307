// What the parts of an agent share: its node, and the run as the head agent planned it.
#pragma once

#include <string>
#include <vector>

#include "launcher/agent/base/poller.h"
#include "launcher/agent/base/roles.h"
#include "launcher/agent/lease/lease_keeper.h"
#include "launcher/agent/node/peer_channels.h"
#include "launcher/agent/node/proxy_process.h"
#include "launcher/agent/node/trace_collector.h"
#include "launcher/agent/relay/relay.h"

namespace cuspan {

// One thread.
struct NodeContext {
  NodeContext(Poller& poller, Bell& bell, LeaseKeeper& leases)
      : poller(poller), bell(bell), leases(leases) {}
  Poller& poller;
  Bell& bell;  // The agent's own.
  LeaseKeeper& leases;
  std::string host;
  std::uint32_t rank = 0;
  std::uint32_t agents = 1;  // Of the run.
  ChannelLayout layout;
  Relay* relay CUSPAN_GUARDED_BY(agent_thread) = nullptr;  // None in a run of one agent.

  // As soon as the agents have met.
  ProxyPool* proxies CUSPAN_GUARDED_BY(agent_thread) = nullptr;
  PeerChannels* peer_channels CUSPAN_GUARDED_BY(agent_thread) = nullptr;
  TraceCollector* trace CUSPAN_GUARDED_BY(agent_thread) =
      nullptr;  // None in a run that is not traced.
  Key128 secret CUSPAN_GUARDED_BY(agent_thread){};
  std::string run CUSPAN_GUARDED_BY(agent_thread);  // Its id.
  ShareTerms share CUSPAN_GUARDED_BY(agent_thread);
  AgentErrors errors;

  // Of the run, by the number that the launcher shows.
  std::vector<DeviceDescription> devices CUSPAN_GUARDED_BY(agent_thread);
  std::vector<AddressWindow> windows CUSPAN_GUARDED_BY(agent_thread);
};

// Sessions are numbered by the agent that serves their process, so that each number occurs once in
// a run and tells its agent: 2000001 is the first of agent 2.
inline constexpr std::uint32_t kSessionsOfAgent = 1'000'000;
inline std::uint32_t AgentOfSession(std::uint32_t session) { return session / kSessionsOfAgent; }

// In a RemoteJoin: the other device is gone, and its proxy is told so.
inline constexpr std::uint32_t kNoAgent = ~std::uint32_t{0};

}  // namespace cuspan

// State shared by the parts of an agent: its node, and the run planned by the head agent.
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

// The run served by an agent. Threads: one.
struct RunContext {
  // Set once the agents have met.
  Key128 secret CUSPAN_GUARDED_BY(agent_thread){};
  std::string id CUSPAN_GUARDED_BY(agent_thread);
  ShareTerms share CUSPAN_GUARDED_BY(agent_thread);
  // Null if the run is not traced.
  TraceCollector* trace CUSPAN_GUARDED_BY(agent_thread) = nullptr;
  // Devices by the number shown by the launcher, and their address windows; set by the plan.
  std::vector<DeviceDescription> devices CUSPAN_GUARDED_BY(agent_thread);
  std::vector<AddressWindow> windows CUSPAN_GUARDED_BY(agent_thread);
};

// Threads: one.
struct NodeContext {
  NodeContext(Poller& poller, Bell& bell, LeaseKeeper& leases)
      : poller(poller), bell(bell), leases(leases) {}
  Poller& poller;
  Bell& bell;  // The agent's own.
  LeaseKeeper& leases;
  std::string host;
  std::uint32_t rank = 0;
  std::uint32_t agents = 1;  // Number of agents in the run.
  ChannelLayout layout;
  Relay* relay CUSPAN_GUARDED_BY(agent_thread) = nullptr;  // Null in a run of one agent.
  // Set once the agents have met.
  ProxyPool* proxies CUSPAN_GUARDED_BY(agent_thread) = nullptr;
  PeerChannels* peer_channels CUSPAN_GUARDED_BY(agent_thread) = nullptr;
  AgentErrors errors;
  RunContext run;
};

// Sessions are numbered by the agent serving their process. Each number is unique in a run and
// contains the agent's rank: 2000001 is the first session of agent 2.
inline constexpr std::uint32_t kSessionsOfAgent = 1'000'000;
inline std::uint32_t AgentOfSession(std::uint32_t session) { return session / kSessionsOfAgent; }

// Rank in a RemoteJoin if the other device is gone: its receiver notifies the proxy.
inline constexpr std::uint32_t kNoAgent = ~std::uint32_t{0};

}  // namespace cuspan

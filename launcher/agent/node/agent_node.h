// Common part of head and worker agents: serves the program's processes on its node, and its node's
// devices to sessions of other agents.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <set>

#include "launcher/agent/base/control_table.h"
#include "launcher/agent/base/roles.h"
#include "launcher/agent/node/agent_loop.h"
#include "launcher/agent/node/client_service.h"
#include "launcher/agent/node/device_service.h"
#include "launcher/agent/node/heartbeats.h"
#include "launcher/agent/node/node_context.h"
#include "launcher/agent/relay/agent_links.h"
#include "launcher/agent/relay/lane_carrier.h"
#include "launcher/host/environment.h"
#include "launcher/host/install_paths.h"

namespace cuspan {

// Time limits for an agent's whole end; then SIGALRM kills it. The second is for traced runs: all
// traces are sent to the head agent and written.
inline constexpr unsigned kEndSeconds = 5;
inline constexpr unsigned kTracedEndSeconds = 60;
// Time for proxies of a traced run to end by themselves: they still record work in flight.
inline constexpr std::chrono::milliseconds kTracedEndLimit{1'000};

// Threads: one.
class AgentNode {
 public:
  static Result<std::unique_ptr<AgentNode>> Create(const InstallPaths& paths,
                                                   const Environment& proxy_environment,
                                                   AgentLinks links) CUSPAN_REQUIRES(agent_thread);
  ~AgentNode();

  // Sets the run's properties: secret, id, sharing of GPUs, and tracing. Proxies may be started
  // afterwards.
  void Join(const Key128& secret, const std::string& run, const ShareTerms& share, bool traced)
      CUSPAN_REQUIRES(agent_thread);

  // Reports a host with an agent. Traffic of proxies to other hosts, such as NCCL's, then uses the
  // interface towards this host, unless the user has chosen another.
  void MeetHost(const std::string& host) CUSPAN_REQUIRES(agent_thread);

  // Messages of the other agents: the node has registered its own handlers, the head or worker
  // agent adds the others.
  ControlTable& control() CUSPAN_REQUIRES(agent_thread) { return control_; }

  // Serves until `step`, called after each round, returns false.
  void Loop(const std::function<bool()>& step) CUSPAN_REQUIRES(agent_thread);
  // Same as Loop, but until all messages are sent and `more` returns false.
  void Drain(const std::function<bool()>& more) CUSPAN_REQUIRES(agent_thread);
  // Ends everything served by this node. Proxies have `patience` to end by themselves.
  void EndAll(std::chrono::milliseconds patience) CUSPAN_REQUIRES(agent_thread);
  // Closes the connections to the other agents in order. All agents call it.
  void Disconnect() CUSPAN_REQUIRES(agent_thread);
  // Name of the transport; empty without other agents.
  std::string_view relay_name() const CUSPAN_REQUIRES(agent_thread) {
    return transport_ != nullptr ? transport_->name() : std::string_view();
  }

  // Starts the head agent's detection of unreachable agents. The others start theirs at the first
  // message from it.
  void StartHeartbeats() CUSPAN_REQUIRES(agent_thread);
  // Called if the head agent is lost: without it the run cannot continue.
  void SetHeadLost(std::function<void(const std::string& reason)> lost)
      CUSPAN_REQUIRES(agent_thread) {
    head_lost_ = std::move(lost);
  }
  // Ranks of the other agents still in the run.
  std::set<std::uint32_t> others() const CUSPAN_REQUIRES(agent_thread);

  NodeContext& context() CUSPAN_REQUIRES(agent_thread) { return context_; }
  const std::string& host() const CUSPAN_REQUIRES(agent_thread) { return context_.host; }
  Poller& poller() CUSPAN_REQUIRES(agent_thread) { return poller_; }
  Relay* relay() CUSPAN_REQUIRES(agent_thread) { return context_.relay; }
  ProxyPool& proxies() CUSPAN_REQUIRES(agent_thread) { return *proxies_; }
  TraceCollector* trace() CUSPAN_REQUIRES(agent_thread) { return context_.run.trace; }
  LeaseKeeper& leases() CUSPAN_REQUIRES(agent_thread) { return leases_; }
  ClientService& clients() CUSPAN_REQUIRES(agent_thread) { return clients_; }
  DeviceService& devices() CUSPAN_REQUIRES(agent_thread) { return devices_; }

 private:
  AgentNode(const InstallPaths& paths, const Environment& proxy_environment,
            const AgentLinks& links, ChannelLayout layout, Poller poller, Bell bell)
      CUSPAN_REQUIRES(agent_thread);
  // Called with --secure: traffic of proxies to other hosts must be encrypted too.
  void KeepProxiesSecure() CUSPAN_REQUIRES(agent_thread);
  Status StartSleep(bool is_head) CUSPAN_REQUIRES(agent_thread);
  void Register() CUSPAN_REQUIRES(agent_thread);
  void ReceiveControl(std::uint32_t rank, const Frame& frame) CUSPAN_REQUIRES(agent_thread);
  void HandleBroken(RouteKey route, const std::string& reason) CUSPAN_REQUIRES(agent_thread);
  void HandleSilence(std::uint32_t rank) CUSPAN_REQUIRES(agent_thread);
  void ConsumeLost() CUSPAN_REQUIRES(agent_thread);
  // Handles the loss of an agent detected by the head agent.
  void Lose(std::uint32_t rank, const std::string& reason) CUSPAN_REQUIRES(agent_thread);
  void GiveUp(std::uint32_t rank, const std::string& reason) CUSPAN_REQUIRES(agent_thread);

  const std::string proxy_;
  const Environment proxy_environment_;
  Transport* const transport_;
  Poller poller_;
  Bell bell_;
  LeaseKeeper leases_;
  NodeContext context_;
  ControlTable control_;
  std::unique_ptr<Carrier> carrier_;
  std::optional<Relay> relay_;
  PeerChannels peer_channels_;
  std::optional<TraceCollector> trace_;
  std::optional<ProxyPool> proxies_;
  DeviceService devices_;
  ClientService clients_;
  std::optional<Heartbeats> heartbeats_;  // Empty if switched off.
  std::function<void(const std::string&)> head_lost_;
  AgentSleep sleep_;  // Set if the transport can wake it.
};

}  // namespace cuspan

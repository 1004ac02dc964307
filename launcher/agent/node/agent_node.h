// What every agent of a run is made of, the head agent and the others: it serves the app's
// processes on its node, and its node's devices to sessions of other agents.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <set>

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

// For the whole end of the agents; after it a process ends by force. The second where the traces of
// all have to come home, and be written.
inline constexpr unsigned kEndSeconds = 5;
inline constexpr unsigned kTracedEndSeconds = 60;
// For the proxies of a traced run to end by themselves: they still record what was under way.
inline constexpr std::chrono::milliseconds kTracedEndLimit{1'000};

// One thread.
class AgentNode {
 public:
  static Result<std::unique_ptr<AgentNode>> Create(const InstallPaths& paths,
                                                   const Environment& proxy_environment,
                                                   AgentLinks links) CUSPAN_REQUIRES(agent_thread);
  ~AgentNode();

  // The run is known: its secret, its id, how it shares its GPUs, and whether it is traced. Proxies
  // may be started.
  void Join(const Key128& secret, const std::string& run, const ShareTerms& share, bool traced)
      CUSPAN_REQUIRES(agent_thread);

  // There is an agent on that host: what proxies say to those of other hosts by themselves, as NCCL
  // does, takes the network by which this host reaches it, unless the user has named another.
  void MeetHost(const std::string& host) CUSPAN_REQUIRES(agent_thread);

  // A control message of another agent that neither service knows; false when the role does not,
  // either.
  using Control = std::function<bool(std::uint32_t rank, const Frame& frame)>;
  void SetControl(Control control) CUSPAN_REQUIRES(agent_thread) { control_ = std::move(control); }

  // Serves until `step`, called between, is false.
  void Loop(const std::function<bool()>& step) CUSPAN_REQUIRES(agent_thread);
  // The same until all that was to be sent is on its way, and `more` is false.
  void Drain(const std::function<bool()>& more) CUSPAN_REQUIRES(agent_thread);
  // Ends what this node serves. Proxies may take `patience` to end by themselves.
  void EndAll(std::chrono::milliseconds patience) CUSPAN_REQUIRES(agent_thread);
  // Ends the connection with the other agents, in good order; all do it.
  void Disconnect() CUSPAN_REQUIRES(agent_thread);
  // What brings messages to them; empty where there are none.
  std::string_view relay_name() const CUSPAN_REQUIRES(agent_thread) {
    return transport_ != nullptr ? transport_->name() : std::string_view();
  }

  // The head agent's part of noticing that one can not be reached any more; the others take theirs
  // when they hear of it for the first time.
  void StartHeartbeats() CUSPAN_REQUIRES(agent_thread);
  // Called instead of giving up the head agent: without it there is no run.
  void SetHomeLost(std::function<void(const std::string& reason)> lost)
      CUSPAN_REQUIRES(agent_thread) {
    home_lost_ = std::move(lost);
  }
  // The other agents that take part in the run, still.
  std::set<std::uint32_t> others() const CUSPAN_REQUIRES(agent_thread);

  NodeContext& context() CUSPAN_REQUIRES(agent_thread) { return context_; }
  const std::string& host() const CUSPAN_REQUIRES(agent_thread) { return context_.host; }
  Poller& poller() CUSPAN_REQUIRES(agent_thread) { return poller_; }
  Relay* relay() CUSPAN_REQUIRES(agent_thread) { return context_.relay; }
  ProxyPool& proxies() CUSPAN_REQUIRES(agent_thread) { return *proxies_; }
  TraceCollector* trace() CUSPAN_REQUIRES(agent_thread) { return context_.trace; }
  LeaseKeeper& leases() CUSPAN_REQUIRES(agent_thread) { return leases_; }
  ClientService& clients() CUSPAN_REQUIRES(agent_thread) { return clients_; }
  DeviceService& devices() CUSPAN_REQUIRES(agent_thread) { return devices_; }

 private:
  AgentNode(const InstallPaths& paths, const Environment& proxy_environment,
            const AgentLinks& links, ChannelLayout layout, Poller poller, Bell bell);
  // With --secure: what proxies say to those of other hosts is encrypted as well.
  void KeepProxiesSecure() CUSPAN_REQUIRES(agent_thread);
  Status StartSleep(bool home) CUSPAN_REQUIRES(agent_thread);
  void TakeControl(std::uint32_t rank, const Frame& frame) CUSPAN_REQUIRES(agent_thread);
  void TakeBroken(RouteKey route, const std::string& reason) CUSPAN_REQUIRES(agent_thread);
  void TakeSilence(std::uint32_t rank) CUSPAN_REQUIRES(agent_thread);
  void TakeLost() CUSPAN_REQUIRES(agent_thread);
  // The head agent has lost that one.
  void Lose(std::uint32_t rank, const std::string& reason) CUSPAN_REQUIRES(agent_thread);
  std::string NameOf(std::uint32_t rank) const CUSPAN_REQUIRES(agent_thread);
  void GiveUp(std::uint32_t rank, const std::string& reason) CUSPAN_REQUIRES(agent_thread);

  const std::string proxy_;
  const Environment proxy_environment_;
  Transport* const transport_;
  Poller poller_;
  Bell bell_;
  LeaseKeeper leases_;
  NodeContext context_;
  Control control_;
  std::unique_ptr<Carrier> carrier_;
  std::optional<Relay> relay_;
  PeerChannels peer_channels_;
  std::optional<TraceCollector> trace_;
  std::optional<ProxyPool> proxies_;
  DeviceService devices_;
  ClientService clients_;
  std::optional<Heartbeats> heartbeats_;  // None where they are off.
  std::function<void(const std::string&)> home_lost_;
  AgentSleep sleep_;  // Where the transport wakes it.
};

}  // namespace cuspan

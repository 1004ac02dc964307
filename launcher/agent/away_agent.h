// An agent away from home: it starts proxies for the home agent's sessions and
// relays between them and it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "launcher/agent/agent_options.h"
#include "launcher/agent/lane_carrier.h"
#include "launcher/agent/peer_channels.h"
#include "launcher/agent/proxy_process.h"
#include "launcher/agent/relay.h"
#include "launcher/agent/trace_collector.h"
#include "launcher/install_paths.h"

namespace cuspan {

class AwayAgent {
 public:
  // Waits for this agent's lanes.
  static Result<std::unique_ptr<AwayAgent>> Create(const AgentOptions& options,
                                                   const InstallPaths& paths,
                                                   const Environment& proxy_environment,
                                                   Transport& transport, const Ranks& ranks);

  // Meets the home agent; `key` is the run's, if this agent was told. False when the run is not to
  // be.
  bool Meet(const RunKey* key);
  // Serves until the home agent ends the run, and ends in good order.
  void Serve();
  // Ends without having served.
  void Leave();

 private:
  enum class State { kOpening, kOpen, kClosing };
  struct Device {
    State state = State::kOpening;
    std::shared_ptr<Channel> channel;
    std::shared_ptr<ProxyProcess> proxy;
  };

  AwayAgent(const AgentOptions& options, const InstallPaths& paths,
            const Environment& proxy_environment, Transport& transport, std::uint32_t agents,
            ChannelLayout layout, std::uint32_t sends_in_flight, Poller poller,
            std::unique_ptr<Bell> bell, std::unique_ptr<Carrier> carrier);
  void TakeControl(std::uint32_t rank, const Frame& frame);
  void Open(const RemoteOpen& open);
  Result<Device> StartDevice(const RemoteOpen& open);
  void Close(RouteKey key);
  void Join(const RemoteJoin& join);
  void TakeReady(RouteKey key, const ProxyReady& ready);
  void TakeGone(RouteKey key, const std::string& reason);
  void EndProxy(RouteKey key, const std::string& reason);
  void EndAll();

  const AgentOptions options_;
  const InstallPaths paths_;
  const Environment proxy_environment_;
  const std::string host_;
  Transport& transport_;
  const std::uint32_t agents_;  // Of the run: the ranks below it.
  const ChannelLayout layout_;
  Poller poller_;
  const std::unique_ptr<Bell> bell_;  // Stays where it is: the carrier points to it.
  const std::unique_ptr<Carrier> carrier_;
  Relay relay_;
  PeerChannels peer_channels_;
  std::optional<TraceCollector> trace_;
  std::optional<ProxyHouse> proxies_;  // As soon as the run's secret is known.
  std::vector<DeviceDescription> inventory_;
  std::map<RouteKey, Device> devices_;
  bool run_ended_ = false;
};

}  // namespace cuspan

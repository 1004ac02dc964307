// This node's devices for sessions of other agents: starts their proxies, and relays between each
// proxy and the agent of its session.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "launcher/agent/base/control_table.h"
#include "launcher/agent/base/roles.h"
#include "launcher/agent/node/node_context.h"

namespace cuspan {

// Threads: one. Requires a relay.
class DeviceService {
 public:
  // `context` outlives it.
  explicit DeviceService(NodeContext& context) CUSPAN_REQUIRES(agent_thread) : context_(context) {}

  // Devices of this node. No others can be opened.
  void SetInventory(std::vector<DeviceDescription> devices) CUSPAN_REQUIRES(agent_thread) {
    inventory_ = std::move(devices);
  }

  // Registers the handlers of other agents' messages about devices of this node.
  void Register(ControlTable& control) CUSPAN_REQUIRES(agent_thread);
  // Handles a request to connect a device of this node to another device of its session.
  void Join(const RemoteJoin& join) CUSPAN_REQUIRES(agent_thread);
  // Handles a protocol error on a route of one of its devices.
  void HandleBroken(RouteKey route, const std::string& reason) CUSPAN_REQUIRES(agent_thread);
  // Handles the loss of an agent: ends the proxies of its sessions.
  void LoseAgent(std::uint32_t rank, const std::string& reason) CUSPAN_REQUIRES(agent_thread);
  // Ends everything at the end of the run.
  void EndAll() CUSPAN_REQUIRES(agent_thread);

 private:
  enum class State { kOpening, kOpen, kClosing };
  struct Device {
    State state = State::kOpening;
    std::shared_ptr<Channel> channel;
    std::shared_ptr<ProxyProcess> proxy;
  };

  void Open(std::uint32_t rank, const RemoteOpen& open) CUSPAN_REQUIRES(agent_thread);
  Result<Device> StartDevice(const RemoteOpen& open) CUSPAN_REQUIRES(agent_thread);
  void Close(RouteKey key) CUSPAN_REQUIRES(agent_thread);
  void ReceiveReady(RouteKey key, const ProxyReady& ready) CUSPAN_REQUIRES(agent_thread);
  void HandleGone(RouteKey key, const std::string& reason) CUSPAN_REQUIRES(agent_thread);
  void EndProxy(RouteKey key, const std::string& reason) CUSPAN_REQUIRES(agent_thread);

  NodeContext& context_;
  std::vector<DeviceDescription> inventory_;
  std::map<RouteKey, Device> devices_;
};

}  // namespace cuspan

// Accepts the program's processes on an agent's node, and owns their sessions.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/base/control_table.h"
#include "launcher/agent/base/roles.h"
#include "launcher/agent/node/client_session.h"
#include "launcher/agent/node/device_reports.h"
#include "launcher/agent/node/node_context.h"
#include "protocol/channel/reception.h"

namespace cuspan {

// Threads: one.
class ClientService {
 public:
  // `context` outlives it.
  explicit ClientService(NodeContext& context) CUSPAN_REQUIRES(agent_thread) : context_(context) {}
  ~ClientService() { EndAll(); }

  // Processes may connect to `address` from now on; they are answered after Serve.
  Status Listen(const std::string& address) CUSPAN_REQUIRES(agent_thread);
  // Call it when the context contains the run's devices. No effect without Listen.
  Status Serve() CUSPAN_REQUIRES(agent_thread);

  // Registers the handlers of other agents' messages about sessions of this agent.
  void Register(ControlTable& control) CUSPAN_REQUIRES(agent_thread);
  // Handles another agent's request to connect a device of a session of this agent.
  void ReceiveJoin(std::uint32_t rank, const RemoteJoin& join) CUSPAN_REQUIRES(agent_thread);
  // Handles a protocol error on a route of one of its sessions.
  void HandleBroken(RouteKey route, const std::string& reason) CUSPAN_REQUIRES(agent_thread);

  // Handles the loss of an agent and its devices.
  void LoseAgent(std::uint32_t rank, const std::string& reason) CUSPAN_REQUIRES(agent_thread);

  // Fills in sessions, errors and devices, for all processes of this node so far.
  void Measure(AgentMetrics& metrics) CUSPAN_REQUIRES(agent_thread);

  void ForgetEnded() CUSPAN_REQUIRES(agent_thread);
  void EndAll() CUSPAN_REQUIRES(agent_thread);
  // Reports of ended sessions.
  DeviceReports& reports() CUSPAN_REQUIRES(agent_thread) { return reports_; }

 private:
  void Admit() CUSPAN_REQUIRES(agent_thread);
  ClientSession* Find(std::uint32_t id) CUSPAN_REQUIRES(agent_thread);
  std::uint32_t NewId() CUSPAN_REQUIRES(agent_thread);

  NodeContext& context_;
  std::optional<Reception> reception_;
  std::vector<std::shared_ptr<ClientSession>> sessions_;
  DeviceReports reports_;
  std::uint64_t started_ = 0;
  std::uint32_t last_number_ = 0;
};

}  // namespace cuspan

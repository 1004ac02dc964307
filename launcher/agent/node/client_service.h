// The processes of the app on an agent's node: accepts them, and knows their sessions.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/base/roles.h"
#include "launcher/agent/node/client_session.h"
#include "launcher/agent/node/device_reports.h"
#include "launcher/agent/node/node_context.h"
#include "protocol/channel/reception.h"

namespace cuspan {

// One thread.
class ClientService {
 public:
  // `context` outlives it.
  explicit ClientService(NodeContext& context) CUSPAN_REQUIRES(agent_thread) : context_(context) {}
  ~ClientService() { EndAll(); }

  // From now on processes may connect to `address`; they are answered as soon as Serve was called.
  Status Listen(const std::string& address) CUSPAN_REQUIRES(agent_thread);
  // The context knows the run's devices. A node that does not listen serves nobody.
  Status Serve() CUSPAN_REQUIRES(agent_thread);

  // A message of another agent about a session of this one; false when it is none.
  bool TakeControl(std::uint32_t rank, const Frame& frame) CUSPAN_REQUIRES(agent_thread);
  // A route of one of its sessions broke.
  void TakeBroken(RouteKey route, const std::string& reason) CUSPAN_REQUIRES(agent_thread);

  // The agent can not be reached any more, and its devices with it.
  void LoseAgent(std::uint32_t rank, const std::string& reason) CUSPAN_REQUIRES(agent_thread);

  // What the processes of this node did until now: sessions, errors and devices of it are filled
  // in.
  void Measure(AgentMetrics& metrics) CUSPAN_REQUIRES(agent_thread);

  void ForgetEnded() CUSPAN_REQUIRES(agent_thread);
  void EndAll() CUSPAN_REQUIRES(agent_thread);
  // Of sessions that have ended.
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

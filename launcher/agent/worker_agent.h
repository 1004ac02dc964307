// An agent away from home: it does what the head agent has planned, for its node.
#pragma once

#include <memory>

#include "launcher/agent/base/agent_options.h"
#include "launcher/agent/base/roles.h"
#include "launcher/agent/node/agent_node.h"
#include "launcher/agent/node/inventory.h"
#include "launcher/run/run_key.h"

namespace cuspan {

class WorkerAgent {
 public:
  static Result<std::unique_ptr<WorkerAgent>> Create(const AgentOptions& options,
                                                     const InstallPaths& paths,
                                                     const Environment& proxy_environment,
                                                     AgentLinks links)
      CUSPAN_REQUIRES(agent_thread);

  // Meets the head agent; `key` is the run's, if this agent was told. False when the run is not to
  // be. `inventory` is of this node.
  bool Meet(const RunKey* key, InventoryQuery& inventory) CUSPAN_REQUIRES(agent_thread);
  // Serves until the head agent ends the run, and ends in good order.
  void Serve() CUSPAN_REQUIRES(agent_thread);
  // Ends without having served.
  void Leave() CUSPAN_REQUIRES(agent_thread);

 private:
  WorkerAgent(const AgentOptions& options, Transport& transport, std::unique_ptr<AgentNode> node);
  bool TakeControl(std::uint32_t rank, const Frame& frame) CUSPAN_REQUIRES(agent_thread);
  void TakePlan(RunPlan plan) CUSPAN_REQUIRES(agent_thread);
  // The head agent can not be reached any more: ends this process, and what it serves.
  [[noreturn]] void EndAlone(const std::string& reason) CUSPAN_REQUIRES(agent_thread);
  void SendReports() CUSPAN_REQUIRES(agent_thread);

  const AgentOptions options_;
  Transport& transport_;
  const std::unique_ptr<AgentNode> node_;
  int ends_ = 0;  // How often the head agent has said that the run ends.
};

}  // namespace cuspan

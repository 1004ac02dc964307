// A worker agent: executes the head agent's plan on its node.
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

  // Meets the head agent. `key`: the run's, if this agent already knows it. `inventory`: of this
  // node. False if the run cannot start.
  bool Meet(const RunKey* key, InventoryQuery& inventory) CUSPAN_REQUIRES(agent_thread);
  // Serves until the head agent ends the run, then shuts down in order.
  void Serve() CUSPAN_REQUIRES(agent_thread);
  // Disconnects without having served.
  void Leave() CUSPAN_REQUIRES(agent_thread);

 private:
  WorkerAgent(const AgentOptions& options, Transport& transport, std::unique_ptr<AgentNode> node)
      CUSPAN_REQUIRES(agent_thread);
  void Register() CUSPAN_REQUIRES(agent_thread);
  void ReceivePlan(RunPlan plan) CUSPAN_REQUIRES(agent_thread);
  // Called if the head agent is unreachable: ends this process and everything it serves.
  [[noreturn]] void EndAlone(const std::string& reason) CUSPAN_REQUIRES(agent_thread);
  void SendReports() CUSPAN_REQUIRES(agent_thread);

  const AgentOptions options_;
  Transport& transport_;
  const std::unique_ptr<AgentNode> node_;
  int ends_ = 0;  // Number of AgentShutdown messages from the head agent.
};

}  // namespace cuspan

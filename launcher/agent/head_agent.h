// The head agent: the one on the launcher's node. It plans the run's devices, tells the other
// agents, and ends the run.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/agent/base/agent_options.h"
#include "launcher/agent/base/roles.h"
#include "launcher/agent/node/agent_metrics.h"
#include "launcher/agent/node/agent_node.h"
#include "launcher/agent/node/device_reports.h"
#include "launcher/agent/node/inventory.h"
#include "launcher/agent/run_allocation.h"
#include "launcher/host/app_process.h"
#include "launcher/run/run_key.h"

namespace cuspan {

class HeadAgent {
 public:
  // `inventory`, of this node, outlives it.
  static Result<std::unique_ptr<HeadAgent>> Create(
      const AgentOptions& options, const InstallPaths& paths, const Environment& proxy_environment,
      const RunKey& key, AgentLinks links, InventoryQuery& inventory) CUSPAN_REQUIRES(agent_thread);

  // Connects to the launcher that started this agent. Without it the app is our own.
  Status JoinLauncher() CUSPAN_REQUIRES(agent_thread);
  // Meets the other agents and finds the devices; tells the launcher, also of a failure.
  Status FindDevices() CUSPAN_REQUIRES(agent_thread);
  // Serves until the launcher, or `app` if there is one, ends the run. Returns
  // the status of `app` as waitpid gives it, else 0.
  int Serve(const AppProcess* app) CUSPAN_REQUIRES(agent_thread);
  // Ends the other agents in good order. To be called once, whatever went before.
  void Shutdown() CUSPAN_REQUIRES(agent_thread);
  // What the run's sessions did; complete after Shutdown.
  std::vector<DeviceReport> reports() const CUSPAN_REQUIRES(agent_thread) { return reports_.All(); }
  // What brings messages to other agents; empty where there are none.
  std::string_view relay_name() const CUSPAN_REQUIRES(agent_thread) { return node_->relay_name(); }

 private:
  HeadAgent(const AgentOptions& options, const RunKey& key, Transport* transport,
            std::unique_ptr<AgentNode> node, InventoryQuery& inventory);
  Result<RunReady> Prepare() CUSPAN_REQUIRES(agent_thread);
  // Of an agent that only looks.
  Result<RunReady> Look() CUSPAN_REQUIRES(agent_thread);
  Result<std::vector<AgentInventory>> GatherInventories() CUSPAN_REQUIRES(agent_thread);
  // The launcher, or the user, learns what the run waits for.
  void TellWaiting(const std::string& what) CUSPAN_REQUIRES(agent_thread);
  // Tells the other agents what was planned.
  void TellPlan() CUSPAN_REQUIRES(agent_thread);
  void ReadLauncher() CUSPAN_REQUIRES(agent_thread);
  // Whether it is for this agent while it serves; else the launcher ends the run.
  bool TakeQuestion(const Frame& frame) CUSPAN_REQUIRES(agent_thread);
  // Posts an answer: what the launcher has no room for goes when it has some.
  template <typename T>
  void AnswerLauncher(const T& message) CUSPAN_REQUIRES(agent_thread);
  // Answers a launcher that wants to look again.
  void TellLook() CUSPAN_REQUIRES(agent_thread);
  bool TakeControl(std::uint32_t rank, const Frame& frame) CUSPAN_REQUIRES(agent_thread);
  // Asks the other agents for the time, until each has answered often.
  void AskClocks() CUSPAN_REQUIRES(agent_thread);
  void EndTrace() CUSPAN_REQUIRES(agent_thread);
  // The others come to the end of what they do: at first of sessions, then of devices.
  void EndOthers() CUSPAN_REQUIRES(agent_thread);
  // Whether one of these can still do what it owes.
  bool Owes(const std::set<std::uint32_t>& ranks) CUSPAN_REQUIRES(agent_thread);
  void TakeClock(std::uint32_t rank, const TraceClock& answer) CUSPAN_REQUIRES(agent_thread);
  void KeepReports(std::vector<DeviceReport>&& reports) CUSPAN_REQUIRES(agent_thread);
  void SendReports() CUSPAN_REQUIRES(agent_thread);
  template <typename T>
  void SendToOthers(const T& message) CUSPAN_REQUIRES(agent_thread) {
    for (std::uint32_t rank = 1; rank < node_->context().agents; ++rank)
      node_->relay()->SendControl(rank, message);
  }

  const AgentOptions options_;
  const RunKey key_;
  Transport* const transport_;
  const std::unique_ptr<AgentNode> node_;
  MetricsQuery metrics_;
  InventoryQuery& inventory_;
  std::optional<ControlSocket> launcher_;
  std::unique_ptr<RunAllocation> allocation_;
  DeviceReports reports_;
  bool reports_wanted_ = false;
  bool run_ended_ = false;
  bool look_wanted_ = false;  // The launcher waits for TellLook.
  bool agents_met_ = false;
  std::set<std::uint32_t> clocks_asked_;  // Agents that have not answered often enough.
  std::set<std::uint32_t> agents_left_;   // Others that have not confirmed the end.
};

}  // namespace cuspan

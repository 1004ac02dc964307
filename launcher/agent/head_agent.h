// The head agent, on the program's node: plans the run's devices, sends the plan to the other
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

// Order of calls: Create, JoinLauncher if there is a launcher, FindDevices, Serve, Shutdown.
class HeadAgent {
 public:
  // `inventory`: the query of this node's GPUs; it outlives the agent.
  static Result<std::unique_ptr<HeadAgent>> Create(
      const AgentOptions& options, const InstallPaths& paths, const Environment& proxy_environment,
      const RunKey& key, AgentLinks links, InventoryQuery& inventory) CUSPAN_REQUIRES(agent_thread);

  // Connects to the launcher. Not called if mpirun started the agents: then agent.cc starts the
  // program.
  Status JoinLauncher() CUSPAN_REQUIRES(agent_thread);
  // Meets the other agents and allocates the devices. Reports the result, or the error, to the
  // launcher. Without one, the notes are logged.
  Status FindDevices() CUSPAN_REQUIRES(agent_thread);
  // Serves until the launcher ends the run, or until `program`, if not null, exits. Returns the
  // wait status of `program` (waitpid), else 0. If serving can not start, logs the error and ends
  // `program`.
  int Serve(const ProgramProcess* program) CUSPAN_REQUIRES(agent_thread);
  // Ends the run: sessions, devices, then the connections to the other agents. Sends the reports
  // and writes the trace. Must be called once after FindDevices, even if that failed.
  void Shutdown() CUSPAN_REQUIRES(agent_thread);
  // Reports of the run's sessions; complete after Shutdown.
  std::vector<DeviceReport> reports() const CUSPAN_REQUIRES(agent_thread) { return reports_.All(); }
  // Name of the transport; empty without other agents.
  std::string_view relay_name() const CUSPAN_REQUIRES(agent_thread) { return node_->relay_name(); }

 private:
  HeadAgent(const AgentOptions& options, const RunKey& key, Transport* transport,
            std::unique_ptr<AgentNode> node, InventoryQuery& inventory)
      CUSPAN_REQUIRES(agent_thread);
  Result<RunReady> Prepare() CUSPAN_REQUIRES(agent_thread);
  // Lists all GPUs and the runs holding them, for an agent with --look.
  Result<RunReady> Query() CUSPAN_REQUIRES(agent_thread);
  Result<std::vector<AgentInventory>> GatherInventories() CUSPAN_REQUIRES(agent_thread);
  // Notifies the launcher, or the user, of the GPUs the run waits for.
  void ReportWaiting(const std::string& what) CUSPAN_REQUIRES(agent_thread);
  // Sends the plan to the other agents.
  void SendPlan() CUSPAN_REQUIRES(agent_thread);
  void ReadLauncher() CUSPAN_REQUIRES(agent_thread);
  // Handles a question of the launcher. False for any other message: it ends the run.
  bool HandleQuestion(const Frame& frame) CUSPAN_REQUIRES(agent_thread);
  // Posts an answer. If the launcher's socket is full, the answer is kept and sent later.
  template <typename T>
  void AnswerLauncher(const T& message) CUSPAN_REQUIRES(agent_thread);
  // Answers a repeated query of the launcher.
  void AnswerQuery() CUSPAN_REQUIRES(agent_thread);
  // Registers the handlers of the other agents' messages.
  void Register() CUSPAN_REQUIRES(agent_thread);
  // Begins to compare clocks, in a traced run. ReceiveClock repeats the question until an agent has
  // answered kClockQuestions times.
  void CompareClocks() CUSPAN_REQUIRES(agent_thread);
  // Second comparison of clocks, at the end of the run.
  void CompareClocksAgain() CUSPAN_REQUIRES(agent_thread);
  // Ends work of the other agents and waits for it: the first call ends their sessions, the second
  // their devices.
  void EndOthers() CUSPAN_REQUIRES(agent_thread);
  // True if an agent of `ranks` is still reachable. `ranks`: agents with an answer outstanding.
  bool AnyReachable(const std::set<std::uint32_t>& ranks) CUSPAN_REQUIRES(agent_thread);
  void ReceiveClock(std::uint32_t rank, const TraceClock& answer) CUSPAN_REQUIRES(agent_thread);
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
  bool query_wanted_ = false;  // The launcher waits for AnswerQuery.
  bool agents_met_ = false;
  std::set<std::uint32_t> clocks_asked_;  // Agents with clock answers outstanding.
  std::set<std::uint32_t> agents_left_;   // Agents without a confirmed end.
};

}  // namespace cuspan

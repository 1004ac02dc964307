// The home agent: the one on the app's node. It knows the run's devices, serves
// the app's processes, and ends the run.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/agent_options.h"
#include "launcher/agent/lane_carrier.h"
#include "launcher/agent/relay.h"
#include "launcher/agent/session.h"
#include "launcher/app_process.h"
#include "launcher/install_paths.h"

namespace cuspan {

class HomeAgent {
 public:
  // `transport` reaches the other agents; none in a run of one agent. Waits for this one's lanes.
  static Result<std::unique_ptr<HomeAgent>> Create(const AgentOptions& options,
                                                   const InstallPaths& paths,
                                                   const Environment& proxy_environment,
                                                   const RunKey& key, Transport* transport,
                                                   const Ranks& ranks);
  ~HomeAgent();

  // Connects to the launcher that started this agent. Without it the app is our own.
  Status JoinLauncher();
  // Meets the other agents and finds the devices; tells the launcher, also of a failure.
  Status FindDevices();
  // Serves until the launcher, or `app` if there is one, ends the run. Returns
  // the status of `app` as waitpid gives it, else 0.
  int Serve(const AppProcess* app);
  // Ends the other agents in good order. To be called once, whatever went before.
  void Shutdown();
  // What the run's sessions did; complete after Shutdown.
  const std::vector<DeviceReport>& reports() const { return context_.reports; }

 private:
  HomeAgent(const AgentOptions& options, const InstallPaths& paths,
            const Environment& proxy_environment, const RunKey& key, Transport* transport,
            const Ranks& ranks, Poller poller, Bell bell, ControlListener listener);
  Status Prepare();
  Result<std::vector<AgentInventory>> GatherInventories();
  Status ChooseAndPlan(std::vector<AgentInventory> inventories);
  void AcceptClients();
  void ReadLauncher();
  void TakeControl(std::uint32_t rank, const Frame& frame);
  Session* FindSession(std::uint32_t id);
  void BreakRoute(RouteKey route, const std::string& reason);
  void EndSessions();
  // Asks the other agents for the time, until each has answered often.
  void AskClocks();
  void EndTrace();
  void ShutDownOthers();
  void TakeClock(std::uint32_t rank, const TraceClock& answer);

  const AgentOptions options_;
  const RunKey key_;
  const std::string host_;
  Transport* const transport_;
  const Ranks ranks_;
  Poller poller_;
  Bell bell_;
  ControlListener listener_;
  ProxyHouse proxies_;
  std::unique_ptr<Carrier> carrier_;
  std::optional<Relay> relay_;
  std::optional<PeerChannels> peer_channels_;
  std::optional<TraceCollector> trace_;
  SessionContext context_;
  std::optional<ControlSocket> launcher_;
  std::vector<std::string> notes_;
  std::vector<std::shared_ptr<Session>> sessions_;
  bool run_ended_ = false;
  bool agents_met_ = false;
  std::uint32_t clocks_asked_ = 0;  // Agents that have not answered often enough.
  std::uint32_t agents_left_ = 0;   // Others that have not confirmed the end.
};

}  // namespace cuspan

#include "launcher/agent/worker_agent.h"

#include <unistd.h>

#include <csignal>
#include <fstream>
#include <iterator>

#include "common/log.h"
#include "launcher/agent/node/agent_metrics.h"
#include "launcher/agent/node/inventory.h"
#include "launcher/agent/startup.h"
#include "launcher/host/app_process.h"

namespace cuspan {
WorkerAgent::WorkerAgent(const AgentOptions& options, Transport& transport,
                         std::unique_ptr<AgentNode> node)
    : options_(options), transport_(transport), node_(std::move(node)) {
  Register();
  node_->leases().SetAnswers({[this](const LeaseView& view) CUSPAN_REQUIRES(agent_thread) {
                                node_->relay()->SendControl(0, view);
                              },
                              [this](const LeaseTaken& taken) CUSPAN_REQUIRES(agent_thread) {
                                node_->relay()->SendControl(0, taken);
                              }});
  node_->SetHeadLost([this](const std::string& reason)
                         CUSPAN_REQUIRES(agent_thread) { EndAlone(reason); });
}

Result<std::unique_ptr<WorkerAgent>> WorkerAgent::Create(const AgentOptions& options,
                                                         const InstallPaths& paths,
                                                         const Environment& proxy_environment,
                                                         AgentLinks links) {
  Transport& transport = *links.transport;
  CUSPAN_ASSIGN_OR_RETURN(std::unique_ptr<AgentNode> node,
                          AgentNode::Create(paths, proxy_environment, std::move(links)));
  return std::unique_ptr<WorkerAgent>(new WorkerAgent(options, transport, std::move(node)));
}

bool WorkerAgent::Meet(const RunKey* key, InventoryQuery& inventory) {
  Result<AgentHello> head = AwaitInvitation(transport_, key, node_->host());
  if (!head.ok()) return false;  // Reported by the head agent.
  node_->Join(head->secret, head->run, head->terms, head->trace);

  AgentInventory answer;
  answer.rank = transport_.rank();
  answer.limit = options_.serve.value_or(kAllDevices);
  // True if the host names are equal and the head agent's socket exists here: it is visible only in
  // its own network namespace.
  answer.same_node =
      head->same_node && head->host == node_->host() && ControlSocket::Connect(head->address).ok();
  if (!answer.same_node) {
    node_->MeetHost(head->host);
    // If another agent of the run already has the address, it serves the processes here.
    if (const Status listens = node_->clients().Listen(head->address); !listens.ok())
      LogInfo("programs on this host cannot use the run: {}", listens.message());
    if (answer.limit != 0) {
      Inventory found = inventory.Collect(node_->host(), answer.rank);
      node_->devices().SetInventory(found.devices);
      answer.problem = std::move(found.problem);
      answer.devices = std::move(found.devices);
    }
  }
  const bool told = SendInventory(transport_, answer).ok();
  inventory.Drop();
  return told;
}

void WorkerAgent::Serve() {
  node_->Loop([this] { return ends_ == 0; });
  const bool traced = node_->trace() != nullptr;
  ::alarm(traced ? kTracedEndSeconds : kEndSeconds);
  node_->clients().EndAll();
  SendReports();
  node_->relay()->SendControl(0, AgentShutdown{});
  // Sessions of other agents end meanwhile and release this node's devices.
  node_->Loop([this] { return ends_ == 1; });
  node_->EndAll(traced ? kTracedEndLimit : std::chrono::milliseconds(0));
  if (traced)
    node_->trace()->ForEachPart(transport_.rank(),
                                [this](const TracePart& part) CUSPAN_REQUIRES(agent_thread) {
                                  node_->relay()->SendControl(0, part);
                                });
  node_->relay()->SendControl(0, AgentShutdown{});
  node_->Drain([] { return false; });
  Leave();
  ::alarm(0);
}

void WorkerAgent::Leave() { node_->Disconnect(); }

void WorkerAgent::EndAlone(const std::string& reason) {
  LogError("{}: the agent on host {} exits", reason, node_->host());
  node_->EndAll(std::chrono::milliseconds(0));
  // Ends Open MPI's daemon here, started for this run only. It would notice only after minutes.
  std::ifstream name(Format("/proc/{}/comm", ::getppid()));
  std::string parent;
  if (std::getline(name, parent) && parent == "orted") ::kill(::getppid(), SIGTERM);
  ::_exit(kExitOwnFailure);
}

void WorkerAgent::SendReports() {
  for (std::vector<DeviceReport>& piece : node_->clients().reports().Collect())
    node_->relay()->SendControl(0, SessionReports{std::move(piece)});
}

void WorkerAgent::Register() {
  using From = ControlTable::From;
  ControlTable& control = node_->control();
  control.Handle<RunPlan>(From::kHead, [this](std::uint32_t, RunPlan& plan) CUSPAN_REQUIRES(
                                           agent_thread) { ReceivePlan(std::move(plan)); });
  control.Handle<TraceClock>(
      From::kHead, [this](std::uint32_t, const TraceClock& question) CUSPAN_REQUIRES(agent_thread) {
        node_->relay()->SendControl(0, TraceClock{question.asked, TraceNow()});
      });
  control.Handle<MetricsAsk>(
      From::kHead, [this](std::uint32_t, const MetricsAsk& ask) CUSPAN_REQUIRES(agent_thread) {
        for (const MetricsPart& part : MeasureAgent(*node_, ask.number))
          node_->relay()->SendControl(0, part);
      });
  control.Handle<AgentShutdown>(From::kHead, [this](std::uint32_t, const AgentShutdown&)
                                                 CUSPAN_REQUIRES(agent_thread) { ++ends_; });
}

void WorkerAgent::ReceivePlan(RunPlan plan) {
  NodeContext& context = node_->context();
  std::move(plan.devices.begin(), plan.devices.end(), std::back_inserter(context.run.devices));
  std::move(plan.windows.begin(), plan.windows.end(), std::back_inserter(context.run.windows));
  if (context.run.devices.size() != context.run.windows.size())
    return LogError("invalid message from the head agent: {} devices with {} address windows",
                    context.run.devices.size(), context.run.windows.size());
  if (!plan.last) return;
  if (const Status serves = node_->clients().Serve(); !serves.ok())
    LogError("programs on this host cannot use the run's devices: {}", serves.message());
}

}  // namespace cuspan

#include "launcher/agent/head_agent.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <iterator>
#include <utility>

#include "common/log.h"
#include "common/process_fd.h"
#include "launcher/agent/base/descriptors.h"
#include "launcher/agent/lease/run_devices.h"
#include "launcher/agent/startup.h"

namespace cuspan {
namespace {

constexpr std::chrono::milliseconds kHandshakeLimit{10'000};
// Number of questions to each agent in a comparison of clocks. The answer with the shortest round
// trip counts.
constexpr int kClockQuestions = 64;
// Number of devices guaranteed to fit into a message with all their attributes.
constexpr std::size_t kDevicesPerMessage = 32;
// Maximum wait for the launcher to read more.
constexpr int kReportsLimitMs = 1'000;

}  // namespace

HeadAgent::HeadAgent(const AgentOptions& options, const RunKey& key, Transport* transport,
                     std::unique_ptr<AgentNode> node, InventoryQuery& inventory)
    : options_(options),
      key_(key),
      transport_(transport),
      node_(std::move(node)),
      metrics_(
          *node_,
          {[this](const MetricsPart& part) CUSPAN_REQUIRES(agent_thread) { AnswerLauncher(part); },
           [this](const MetricsEnd& end) CUSPAN_REQUIRES(agent_thread) { AnswerLauncher(end); }}),
      inventory_(inventory) {
  Register();
}

Result<std::unique_ptr<HeadAgent>> HeadAgent::Create(const AgentOptions& options,
                                                     const InstallPaths& paths,
                                                     const Environment& proxy_environment,
                                                     const RunKey& key, AgentLinks links,
                                                     InventoryQuery& inventory) {
  Transport* const transport = links.transport;
  CUSPAN_ASSIGN_OR_RETURN(std::unique_ptr<AgentNode> node,
                          AgentNode::Create(paths, proxy_environment, std::move(links)));
  node->Join(key.secret, key.Id(), options.request.share, !options.trace.empty());
  CUSPAN_RETURN_IF_ERROR(node->clients().Listen(key.Address()));
  return std::unique_ptr<HeadAgent>(
      new HeadAgent(options, key, transport, std::move(node), inventory));
}

Status HeadAgent::JoinLauncher() {
  CUSPAN_ASSIGN_OR_RETURN(ControlSocket launcher, ControlSocket::Connect(key_.LauncherAddress()));
  CUSPAN_RETURN_IF_ERROR(launcher.Send(HeadJoin{key_.secret}));
  CUSPAN_ASSIGN_OR_RETURN(LauncherHello hello, launcher.Expect<LauncherHello>(kHandshakeLimit));
  if (!SameSecret(hello.secret, key_.secret))
    return Status::Refused("the launcher does not know this run's secret");
  if (hello.table_hash != kOpTableHash)
    return Status::Refused(
        "cuspan and cuspan-agent on host {} have different versions: install one version",
        node_->host());
  launcher_ = std::move(launcher);
  return Status::Ok();
}

Status HeadAgent::FindDevices() {
  // While the allocation waits for GPUs, the loop runs: the launcher's end ends the run.
  if (launcher_)
    CUSPAN_RETURN_IF_ERROR(node_->poller().Watch(
        launcher_->fd(), [this]() CUSPAN_REQUIRES(agent_thread) { ReadLauncher(); }));
  Result<RunReady> ready = Prepare();
  // ReadLauncher has removed it if the run has ended.
  if (launcher_ && !run_ended_) node_->poller().Forget(launcher_->fd());
  if (!launcher_) {
    if (!ready.ok()) return ready.status();
    for (const std::string& note : ready->notes) LogWarn("{}", note);
    return Status::Ok();
  }
  const Status told =
      ready.ok() ? launcher_->Send(*ready) : launcher_->Send(Refused{ready.status().message()});
  return ready.ok() ? told : ready.status();
}

Result<RunReady> HeadAgent::Prepare() {
  CUSPAN_ASSIGN_OR_RETURN(std::vector<AgentInventory> inventories, GatherInventories());
  CUSPAN_ASSIGN_OR_RETURN(allocation_, RunAllocation::Create(*node_, options_.request,
                                                             node_->context().run.id, inventories));
  if (options_.request.look) return Query();
  const auto keep_on = [this] { return !run_ended_; };
  CUSPAN_ASSIGN_OR_RETURN(
      std::vector<DeviceDescription> devices,
      allocation_->Allocate(keep_on, [this](const std::string& what)
                                         CUSPAN_REQUIRES(agent_thread) { ReportWaiting(what); }));
  CUSPAN_ASSIGN_OR_RETURN(std::vector<AddressWindow> windows, PlanWindows(devices));
  // Programs see only the memory allowed to the run on each GPU.
  if (const std::uint64_t cap = options_.request.share.memory; cap != 0)
    for (DeviceDescription& device : devices)
      device.memory_bytes = std::min(device.memory_bytes, cap);
  node_->context().run.devices = std::move(devices);
  node_->context().run.windows = std::move(windows);
  if (agents_met_) SendPlan();
  RunReady ready{
      node_->context().run.devices, allocation_->notes(), {}, {}, std::string(relay_name())};
  const Status room =
      CheckDescriptorsFor(kSessionDescriptors + ready.devices.size() * kDeviceDescriptors);
  if (!room.ok())
    ready.notes.push_back(
        Format("a single program may fail to open all devices: {}", room.message()));
  return ready;
}

Result<RunReady> HeadAgent::Query() {
  CUSPAN_ASSIGN_OR_RETURN(RunReady found, allocation_->Query([this] { return !run_ended_; }));
  found.relay = relay_name();
  return found;
}

void HeadAgent::AnswerQuery() {
  const Result<RunReady> found = Query();
  if (run_ended_) return;  // The launcher expects no answer any more.
  const Status told =
      found.ok() ? launcher_->Send(*found) : launcher_->Send(Refused{found.status().message()});
  if (!told.ok()) LogInfo("{}", told.message());
}

void HeadAgent::ReportWaiting(const std::string& what) {
  if (!launcher_) return LogWarn("waiting for {}", what);
  if (const Status sent = launcher_->Send(RunWaiting{what}); !sent.ok())
    LogInfo("{}", sent.message());
}

// Inventories of all agents, in the order of the program's device numbers.
Result<std::vector<AgentInventory>> HeadAgent::GatherInventories() {
  std::vector<AgentInventory> inventories;
  const std::uint32_t agents = node_->context().agents;
  const bool others = transport_ != nullptr && agents > 1;
  if (others) {
    AgentHello own;
    own.secret = key_.secret;
    own.table_hash = kOpTableHash;
    own.host = node_->host();
    own.address = key_.Address();
    own.same_node = options_.same_node == SameNode::kAuto;
    own.trace = !options_.trace.empty();
    own.run = node_->context().run.id;
    own.terms = node_->context().run.share;
    CUSPAN_ASSIGN_OR_RETURN(inventories, MeetAgents(*transport_, agents, own));
    agents_met_ = true;
    for (const AgentInventory& met : inventories)
      if (!met.same_node && !met.devices.empty()) node_->MeetHost(met.devices.front().host);
    node_->StartHeartbeats();
  }
  // If there are other agents, this node serves devices only if the user named this node too.
  std::uint32_t serve = options_.serve.value_or(others ? 0 : kAllDevices);
  std::size_t place = std::min<std::size_t>(options_.place, inventories.size());
  // An agent of this node serves no devices (same_node): this agent serves them. They take the
  // place of the first such agent.
  for (std::size_t i = inventories.size(); i-- > 0;) {
    if (!inventories[i].same_node) continue;
    serve = AddDevices(serve, inventories[i].limit);
    if (options_.serve.value_or(0) == 0) place = i;
  }
  if (serve == 0) return inventories;
  Inventory own = inventory_.Collect(node_->host(), 0);
  AgentInventory entry;
  entry.problem = std::move(own.problem);
  entry.devices = std::move(own.devices);
  node_->devices().SetInventory(entry.devices);
  entry.limit = serve;
  inventories.insert(inventories.begin() + static_cast<std::ptrdiff_t>(place), std::move(entry));
  return inventories;
}

void HeadAgent::SendPlan() {
  const NodeContext& context = node_->context();
  for (std::size_t first = 0; first < context.run.devices.size(); first += kDevicesPerMessage) {
    const std::size_t end = std::min(first + kDevicesPerMessage, context.run.devices.size());
    const auto piece = [&](const auto& all) {
      return std::vector(all.begin() + static_cast<std::ptrdiff_t>(first),
                         all.begin() + static_cast<std::ptrdiff_t>(end));
    };
    SendToOthers(RunPlan{piece(context.run.devices), piece(context.run.windows),
                         end == context.run.devices.size()});
  }
}

int HeadAgent::Serve(const ProgramProcess* program) {
  int program_status = 0;
  UniqueFd program_process;
  Status ready = Status::Ok();
  if (program != nullptr) {
    program_process = OpenProcess(program->pid());
    ready = node_->poller().Watch(program_process.get(), [&]() CUSPAN_REQUIRES(agent_thread) {
      if (::waitpid(program->pid(), &program_status, WNOHANG) != program->pid()) return;
      node_->poller().Forget(program_process.get());
      run_ended_ = true;
    });
  }
  if (ready.ok()) ready = node_->clients().Serve();
  if (ready.ok() && launcher_)
    ready = node_->poller().Watch(launcher_->fd(),
                                  [this]() CUSPAN_REQUIRES(agent_thread) { ReadLauncher(); });
  if (!ready.ok()) {
    LogError("programs cannot use the run's devices: {}", ready.message());
    if (program == nullptr) return 0;
    // Its calls would only wait.
    ::kill(program->pid(), SIGKILL);
    ::waitpid(program->pid(), &program_status, 0);
    return program_status;
  }
  CompareClocks();
  while (!run_ended_) {
    node_->Loop([this] { return !run_ended_ && !query_wanted_; });
    // AnswerQuery runs the loop itself, so it is called outside.
    if (std::exchange(query_wanted_, false)) AnswerQuery();
  }
  return program_status;
}

template <typename T>
void HeadAgent::AnswerLauncher(const T& message) {
  if (run_ended_) return;
  if (const Status sent = launcher_->Post(message); !sent.ok())
    return LogInfo("{}", sent.message());
  if (launcher_->kept() != 0)
    node_->poller().SetInterest(launcher_->fd(), Poller::Interest::kWrite);
}

bool HeadAgent::HandleQuestion(const Frame& frame) {
  if (options_.request.look && frame.op() == Op::kQueryAgain) {
    query_wanted_ = true;
    return true;
  }
  if (frame.op() != Op::kMetricsAsk) return false;
  const Result<MetricsAsk> ask = ParseMessage<MetricsAsk>(frame);
  if (ask.ok())
    metrics_.Ask(ask->number);
  else
    LogError("invalid message from the launcher: {}", ask.status().message());
  return true;
}

void HeadAgent::ReadLauncher() {
  if (launcher_->kept() != 0) {
    // Reads no more questions until the launcher has read the earlier answers.
    if (launcher_->Flush().ok() && launcher_->kept() != 0) return;
    node_->poller().SetInterest(launcher_->fd(), Poller::Interest::kRead);
  }
  Result<std::optional<ControlSocket::Message>> message = launcher_->TryReceive();
  while (message.ok() && message->has_value() && HandleQuestion((*message)->frame))
    message = launcher_->TryReceive();
  if (message.ok() && !message->has_value()) return;
  run_ended_ = true;
  metrics_.Stop();
  node_->poller().Forget(launcher_->fd());
  // The launcher is gone: the run ends without a report.
  if (!message.ok()) return;
  if (const Result<RunEnd> end = ParseMessage<RunEnd>((*message)->frame); !end.ok())
    return LogError("invalid message from the launcher: {}", end.status().message());
  reports_wanted_ = true;
}

void HeadAgent::KeepReports(std::vector<DeviceReport>&& reports) {
  for (DeviceReport& report : reports) reports_.Add(std::move(report));
}

void HeadAgent::Register() {
  constexpr auto kFrom = ControlTable::From::kWorkers;
  ControlTable& control = node_->control();
  control.Handle<SessionReports>(
      kFrom, [this](std::uint32_t, SessionReports& message)
                 CUSPAN_REQUIRES(agent_thread) { KeepReports(std::move(message.reports)); });
  control.Handle<TraceClock>(kFrom,
                             [this](std::uint32_t rank, const TraceClock& answer)
                                 CUSPAN_REQUIRES(agent_thread) { ReceiveClock(rank, answer); });
  control.Handle<TracePart>(
      kFrom, [this](std::uint32_t rank, const TracePart& part) CUSPAN_REQUIRES(agent_thread) {
        if (node_->trace() != nullptr && part.rank == rank) node_->trace()->Collect(part);
      });
  control.Handle<MetricsPart>(
      kFrom, [this](std::uint32_t rank, MetricsPart& part)
                 CUSPAN_REQUIRES(agent_thread) { metrics_.ReceivePart(rank, std::move(part)); });
  control.Handle<AgentShutdown>(kFrom,
                                [this](std::uint32_t rank, const AgentShutdown&)
                                    CUSPAN_REQUIRES(agent_thread) { agents_left_.erase(rank); });
}

void HeadAgent::CompareClocks() {
  if (node_->trace() == nullptr || !agents_met_) return;
  clocks_asked_ = node_->others();
  SendToOthers(TraceClock{TraceNow(), 0});
}

void HeadAgent::ReceiveClock(std::uint32_t rank, const TraceClock& answer) {
  const std::uint64_t now = TraceNow();
  if (node_->trace() == nullptr || answer.asked > now) return;
  ClockOffset& clock = node_->trace()->clock(rank);
  clock.Collect(answer.asked, answer.answered, now);
  if (clock.answers() < kClockQuestions)
    node_->relay()->SendControl(rank, TraceClock{now, 0});
  else
    clocks_asked_.erase(rank);
}

void HeadAgent::CompareClocksAgain() {
  // Without a complete first comparison, a second one is of no use.
  if (!agents_met_ || AnyReachable(clocks_asked_)) return;
  for (std::uint32_t rank = 1; rank < node_->context().agents; ++rank)
    node_->trace()->clock(rank).StartSecond();
  CompareClocks();
  node_->Loop([this]() CUSPAN_REQUIRES(agent_thread) { return AnyReachable(clocks_asked_); });
}

void HeadAgent::EndOthers() {
  if (!agents_met_) return;
  agents_left_ = node_->others();
  SendToOthers(AgentShutdown{});
  // Messages in flight arrive before the confirmation and are still handled.
  node_->Drain([this]() CUSPAN_REQUIRES(agent_thread) { return AnyReachable(agents_left_); });
}

bool HeadAgent::AnyReachable(const std::set<std::uint32_t>& ranks) {
  return std::any_of(ranks.begin(), ranks.end(),
                     [this](std::uint32_t rank)
                         CUSPAN_REQUIRES(agent_thread) { return !node_->relay()->gave_up(rank); });
}

void HeadAgent::SendReports() {
  Status sent = Status::Ok();
  for (std::vector<DeviceReport>& piece : reports_.Collect())
    if (sent.ok()) sent = launcher_->Post(RunStatistics{std::move(piece)});
  if (sent.ok()) sent = launcher_->Post(RunStatistics{});  // End mark.
  // Also sends messages kept earlier.
  while (sent.ok() && launcher_->kept() != 0) {
    pollfd launcher{launcher_->fd(), POLLOUT, 0};
    if (::poll(&launcher, 1, kReportsLimitMs) <= 0)
      sent = Status::Unavailable("the launcher does not read the statistics");
    else
      sent = launcher_->Flush();
  }
  if (!sent.ok()) LogInfo("{}", sent.message());
}

void HeadAgent::Shutdown() {
  const bool traced = node_->trace() != nullptr;
  ::alarm(traced ? kTracedEndSeconds : kEndSeconds);
  node_->clients().EndAll();
  for (std::vector<DeviceReport>& piece : node_->clients().reports().Collect())
    KeepReports(std::move(piece));
  EndOthers();
  if (reports_wanted_) SendReports();
  if (traced) CompareClocksAgain();
  node_->EndAll(traced ? kTracedEndLimit : std::chrono::milliseconds(0));
  EndOthers();
  node_->Disconnect();
  if (traced)
    if (const Status written = node_->trace()->Write(options_.trace); !written.ok())
      LogError("{}", written.message());
  ::alarm(0);
}

}  // namespace cuspan

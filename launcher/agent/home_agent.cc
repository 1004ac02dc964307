#include "launcher/agent/home_agent.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/log.h"
#include "common/settings.h"
#include "launcher/agent/agent_loop.h"
#include "launcher/agent/inventory.h"
#include "launcher/agent/run_devices.h"
#include "launcher/agent/startup.h"
#include "launcher/agent_cluster.h"
#include "launcher/process_fd.h"

namespace cuspan {
namespace {

constexpr std::chrono::milliseconds kHandshakeLimit{10'000};
constexpr std::chrono::milliseconds kKillLimit{2'000};
// For the whole end of the agents; after it this process ends by force.
constexpr unsigned kShutdownSeconds = 5;
// The same where the traces of all have to come home, and be written.
constexpr unsigned kTraceSeconds = 60;
constexpr std::chrono::milliseconds kTraceEndLimit{1'000};
// The fastest of so many answers tells how the clocks stand.
constexpr int kClockQuestions = 64;

}  // namespace

HomeAgent::HomeAgent(const AgentOptions& options, const InstallPaths& paths,
                     const Environment& proxy_environment, const RunKey& key, Transport* transport,
                     const Ranks& ranks, Poller poller, Bell bell, ControlListener listener)
    : options_(options),
      key_(key),
      host_(OwnHostName()),
      transport_(transport),
      ranks_(ranks),
      poller_(std::move(poller)),
      bell_(std::move(bell)),
      listener_(std::move(listener)),
      proxies_(poller_, paths.proxy, proxy_environment, key.secret),
      context_(poller_, proxies_) {}

HomeAgent::~HomeAgent() { EndSessions(); }

Result<std::unique_ptr<HomeAgent>> HomeAgent::Create(const AgentOptions& options,
                                                     const InstallPaths& paths,
                                                     const Environment& proxy_environment,
                                                     const RunKey& key, Transport* transport,
                                                     const Ranks& ranks) {
  Result<Poller> poller = Poller::Create();
  if (!poller.ok()) return poller.status();
  Result<Bell> bell = Bell::Create();
  if (!bell.ok()) return bell.status();
  Result<ControlListener> listener = ControlListener::Listen(key.Address());
  if (!listener.ok()) return listener.status();
  std::unique_ptr<HomeAgent> home(new HomeAgent(options, paths, proxy_environment, key, transport,
                                                ranks, std::move(*poller), std::move(*bell),
                                                std::move(*listener)));
  if (transport != nullptr) {
    Result<std::unique_ptr<Carrier>> carrier = MakeCarrier(*transport, ranks, home->bell_);
    if (!carrier.ok()) return carrier.status();
    home->carrier_ = std::move(*carrier);
  }
  return home;
}

Status HomeAgent::JoinLauncher() {
  Result<ControlSocket> launcher = ControlSocket::Connect(key_.LauncherAddress());
  if (!launcher.ok()) return launcher.status();
  Result<LauncherHello> hello = launcher->Expect<LauncherHello>(kHandshakeLimit);
  if (!hello.ok()) return hello.status();
  if (!SameSecret(hello->secret, key_.secret))
    return Status::Refused("the launcher does not know this run's secret");
  if (hello->table_hash != kOpTableHash)
    return Status::Refused(
        "cuspan and cuspan-agent on host {} are of different versions: install one version", host_);
  launcher_ = std::move(*launcher);
  return Status::Ok();
}

Status HomeAgent::FindDevices() {
  const Status found = Prepare();
  if (!launcher_) {
    for (const std::string& note : notes_) LogWarn("{}", note);
    return found;
  }
  const Status told = found.ok() ? launcher_->Send(RunReady{context_.devices, notes_})
                                 : launcher_->Send(Refused{found.message()});
  return found.ok() ? told : found;
}

Status HomeAgent::Prepare() {
  Result<ChannelLayout> layout = ChannelLayout::FromSettings();
  Result<std::uint64_t> sends = SettingNumber(settings::kSendsInFlight, 1, 64);
  // The other agents are met first in any case: they wait for it.
  Result<std::vector<AgentInventory>> inventories = GatherInventories();
  if (!layout.ok()) return layout.status();
  if (!sends.ok()) return sends.status();
  if (!inventories.ok()) return inventories.status();
  CUSPAN_RETURN_IF_ERROR(ChooseAndPlan(std::move(*inventories)));
  context_.secret = key_.secret;
  context_.host = host_;
  context_.layout = *layout;
  context_.bell = &bell_;
  peer_channels_.emplace(bell_, *layout);
  context_.peer_channels = &*peer_channels_;
  if (!options_.trace.empty()) context_.trace = &trace_.emplace(host_);
  if (transport_ != nullptr) {
    Relay::Handlers handlers;
    handlers.control = [this](std::uint32_t rank, const Frame& frame) { TakeControl(rank, frame); };
    handlers.broken = [this](RouteKey route, const std::string& reason) {
      BreakRoute(route, reason);
    };
    relay_.emplace(*transport_, *carrier_, static_cast<std::uint32_t>(*sends), std::move(handlers));
    context_.relay = &*relay_;
  }
  return Status::Ok();
}

// All agents' devices in the order of the app's numbering.
Result<std::vector<AgentInventory>> HomeAgent::GatherInventories() {
  std::vector<AgentInventory> inventories;
  const bool others = transport_ != nullptr && ranks_.agents > 1;
  if (others) {
    AgentHello own;
    own.secret = key_.secret;
    own.table_hash = kOpTableHash;
    own.host = host_;
    own.address = key_.Address();
    own.same_node = options_.same_node == SameNode::kAuto;
    own.trace = !options_.trace.empty();
    Result<std::vector<AgentInventory>> met = MeetAgents(*transport_, ranks_.agents, own);
    if (!met.ok()) return met;
    agents_met_ = true;
    inventories = std::move(*met);
  }
  // Where others serve, this node's devices count only if it was named too.
  std::uint32_t serve = options_.serve.value_or(others ? 0 : kAllDevices);
  std::size_t place = std::min<std::size_t>(options_.place, inventories.size());
  for (std::size_t i = inventories.size(); i-- > 0;) {
    if (!inventories[i].same_node) continue;
    serve = AddDevices(serve, inventories[i].limit);
    if (options_.serve.value_or(0) == 0) place = i;
  }
  if (serve == 0) return inventories;
  Inventory own = TakeInventory(proxies_, options_.device, host_, 0);
  AgentInventory entry;
  entry.problem = std::move(own.problem);
  entry.devices = std::move(own.devices);
  entry.limit = serve;
  inventories.insert(inventories.begin() + static_cast<std::ptrdiff_t>(place), std::move(entry));
  return inventories;
}

Status HomeAgent::ChooseAndPlan(std::vector<AgentInventory> inventories) {
  Result<RunDevices> chosen = ChooseDevices({std::move(inventories)}, options_.gpus);
  if (!chosen.ok()) return chosen.status();
  Result<std::vector<AddressWindow>> windows = PlanWindows(chosen->devices);
  if (!windows.ok()) return windows.status();
  context_.devices = std::move(chosen->devices);
  context_.windows = std::move(*windows);
  notes_ = std::move(chosen->notes);
  return Status::Ok();
}

int HomeAgent::Serve(const AppProcess* app) {
  int app_status = 0;
  UniqueFd app_process;
  if (app != nullptr) {
    app_process = OpenProcess(app->pid());
    const Status watched = poller_.Watch(app_process.get(), [&] {
      if (::waitpid(app->pid(), &app_status, WNOHANG) != app->pid()) return;
      poller_.Forget(app_process.get());
      run_ended_ = true;
    });
    if (!watched.ok()) {
      LogError("watching the program: {}", watched.message());
      ::waitpid(app->pid(), &app_status, 0);
      return app_status;
    }
  }
  Status watched = poller_.Watch(listener_.fd(), [this] { AcceptClients(); });
  if (watched.ok() && launcher_)
    watched = poller_.Watch(launcher_->fd(), [this] { ReadLauncher(); });
  if (!watched.ok()) {
    LogError("{}", watched.message());
    return app_status;
  }
  AskClocks();
  RunAgentLoop(poller_, relay_ ? &*relay_ : nullptr, &bell_, [this] {
    std::erase_if(sessions_,
                  [](const std::shared_ptr<Session>& session) { return session->ended(); });
    return !run_ended_;
  });
  return app_status;
}

void HomeAgent::AcceptClients() {
  for (;;) {
    Result<std::optional<ControlSocket>> socket = listener_.TryAccept();
    if (!socket.ok()) {
      LogError("a connection is refused: {}", socket.status().message());
      return;
    }
    if (!socket->has_value()) return;
    sessions_.push_back(Session::Start(context_, std::move(**socket)));
  }
}

void HomeAgent::ReadLauncher() {
  Result<std::optional<ControlSocket::Message>> message = launcher_->TryReceive();
  if (message.ok() && !message->has_value()) return;
  run_ended_ = true;
  poller_.Forget(launcher_->fd());
  // Its end is the run's end as well, but nobody asks for a report.
  if (!message.ok()) return;
  if (const Result<RunEnd> end = ParseMessage<RunEnd>((*message)->frame); !end.ok())
    return LogError("from the launcher: {}", end.status().message());
  EndSessions();
  if (const Status sent = launcher_->Send(RunStatistics{context_.reports}); !sent.ok())
    LogInfo("{}", sent.message());
}

Session* HomeAgent::FindSession(std::uint32_t id) {
  for (const std::shared_ptr<Session>& session : sessions_)
    if (session->id() == id && !session->ended()) return session.get();
  return nullptr;
}

void HomeAgent::TakeControl(std::uint32_t rank, const Frame& frame) {
  if (frame.op() == Op::kRemoteOpened) {
    const Result<RemoteOpened> opened = ParseMessage<RemoteOpened>(frame);
    if (!opened.ok()) return LogError("agent {}: {}", rank, opened.status().message());
    // A session that has ended meanwhile has told that agent so.
    if (Session* session = FindSession(opened->session)) session->TakeRemoteOpened(*opened);
  } else if (frame.op() == Op::kRemoteLost) {
    const Result<RemoteLost> lost = ParseMessage<RemoteLost>(frame);
    if (!lost.ok()) return LogError("agent {}: {}", rank, lost.status().message());
    if (Session* session = FindSession(lost->session)) session->TakeRemoteLost(*lost);
  } else if (frame.op() == Op::kRemoteJoin) {
    const Result<RemoteJoin> join = ParseMessage<RemoteJoin>(frame);
    if (!join.ok()) return LogError("agent {}: {}", rank, join.status().message());
    if (join->rank != rank)
      return LogError("agent {} speaks for agent {}, which it is not", rank, join->rank);
    if (Session* session = FindSession(join->session)) session->TakeRemoteJoin(*join);
  } else if (frame.op() == Op::kRemoteUnjoin) {
    const Result<RemoteUnjoin> unjoin = ParseMessage<RemoteUnjoin>(frame);
    if (!unjoin.ok()) return LogError("agent {}: {}", rank, unjoin.status().message());
    if (peer_channels_) peer_channels_->Close(&*relay_, JoinRoute(unjoin->session, unjoin->join));
  } else if (frame.op() == Op::kTraceClock) {
    const Result<TraceClock> answer = ParseMessage<TraceClock>(frame);
    if (!answer.ok()) return LogError("agent {}: {}", rank, answer.status().message());
    TakeClock(rank, *answer);
  } else if (frame.op() == Op::kTracePart) {
    const Result<TracePart> part = ParseMessage<TracePart>(frame);
    if (!part.ok()) return LogError("agent {}: {}", rank, part.status().message());
    if (trace_ && part->rank == rank) trace_->Take(*part);
  } else if (frame.op() == Op::kAgentShutdown) {
    if (agents_left_ > 0) --agents_left_;
  } else {
    LogError("agent {} sent op {} ({}), which is not for the home agent", rank, frame.header.op,
             OpName(frame.op()));
  }
}

void HomeAgent::BreakRoute(RouteKey route, const std::string& reason) {
  if (Session* session = FindSession(route.session))
    session->End(IsJoinRoute(route)
                     ? Format("on the channel between two devices: {}", reason)
                     : Format("on the channel of device {}: {}", route.device, reason));
}

void HomeAgent::EndSessions() {
  for (const std::shared_ptr<Session>& session : sessions_) session->End("");
  sessions_.clear();
}

void HomeAgent::AskClocks() {
  if (!trace_ || !relay_ || ranks_.agents == 1) return;
  clocks_asked_ = ranks_.agents - 1;
  for (std::uint32_t rank = 1; rank < ranks_.agents; ++rank)
    relay_->SendControl(rank, TraceClock{TraceNow(), 0});
}

void HomeAgent::TakeClock(std::uint32_t rank, const TraceClock& answer) {
  const std::uint64_t now = TraceNow();
  if (!trace_ || answer.asked > now) return;
  ClockOffset& clock = trace_->clock(rank);
  clock.Take(answer.asked, answer.answered, now);
  if (clock.answers() < kClockQuestions)
    relay_->SendControl(rank, TraceClock{now, 0});
  else if (clocks_asked_ != 0)
    --clocks_asked_;
}

void HomeAgent::EndTrace() {
  if (relay_ && clocks_asked_ == 0) {
    for (std::uint32_t rank = 1; rank < ranks_.agents; ++rank) trace_->clock(rank).StartSecond();
    AskClocks();
    RunAgentLoop(poller_, &*relay_, &bell_, [this] { return clocks_asked_ != 0; });
  }
  // They still record what was under way.
  proxies_.WaitEnds(kTraceEndLimit);
}

void HomeAgent::Shutdown() {
  EndSessions();
  if (trace_) {
    ::alarm(kTraceSeconds);
    EndTrace();
  }
  proxies_.KillAll(kKillLimit);
  ShutDownOthers();
  if (!trace_) return;
  if (const Status written = trace_->Write(options_.trace); !written.ok())
    LogError("{}", written.message());
  ::alarm(0);
}

void HomeAgent::ShutDownOthers() {
  if (transport_ == nullptr) return;
  ::alarm(trace_ ? kTraceSeconds : kShutdownSeconds);
  if (agents_met_ && !relay_) {
    // They wait for the first message of a relay.
    Relay::Handlers handlers;
    handlers.control = [this](std::uint32_t rank, const Frame& frame) { TakeControl(rank, frame); };
    handlers.broken = [](RouteKey, const std::string&) {};
    relay_.emplace(*transport_, *carrier_, 1, std::move(handlers));
  }
  if (relay_) {
    agents_left_ = ranks_.agents - 1;
    for (std::uint32_t rank = 1; rank < ranks_.agents; ++rank)
      relay_->SendControl(rank, AgentShutdown{});
    // What is under way arrives before the confirmation, and is taken.
    RunAgentLoop(poller_, &*relay_, &bell_,
                 [this] { return agents_left_ != 0 || !relay_->quiet(); });
  }
  carrier_->End();
  transport_->Shutdown();
  ::alarm(0);
}

}  // namespace cuspan

#include "launcher/agent/node/agent_node.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "common/log.h"
#include "common/settings.h"
#include "launcher/agent/node/agent_loop.h"
#include "launcher/host/own_host.h"
#include "launcher/host/route.h"
#include "launcher/run/secure_network.h"

namespace cuspan {
namespace {

constexpr std::chrono::milliseconds kKillLimit{2'000};

// The heartbeat setting; empty: off.
Result<std::optional<std::chrono::seconds>> HeartbeatLimit() {
  if (std::string_view(SettingText(settings::kHeartbeat)) == "off")
    return std::optional<std::chrono::seconds>();
  CUSPAN_ASSIGN_OR_RETURN(const std::uint64_t seconds,
                          SettingNumber(settings::kHeartbeat, 1, 3600));
  return std::optional(std::chrono::seconds(seconds));
}

// Name of another agent for messages.
std::string NameOf(const NodeContext& context, std::uint32_t rank) CUSPAN_REQUIRES(agent_thread) {
  const auto device =
      std::find_if(context.run.devices.begin(), context.run.devices.end(),
                   [rank](const DeviceDescription& known) { return known.agent == rank; });
  if (device != context.run.devices.end()) return Format("host {}", device->host);
  return rank == 0 ? "the program's host" : Format("agent {}", rank);
}

}  // namespace

AgentNode::AgentNode(const InstallPaths& paths, const Environment& proxy_environment,
                     const AgentLinks& links, ChannelLayout layout, Poller poller, Bell bell)
    : proxy_(paths.proxy),
      proxy_environment_(proxy_environment),
      transport_(links.transport),
      poller_(std::move(poller)),
      bell_(std::move(bell)),
      leases_(poller_, OwnHostName()),
      context_(poller_, bell_, leases_),
      peer_channels_(bell_, layout),
      devices_(context_),
      clients_(context_) {
  context_.host = OwnHostName();
  context_.rank = transport_ != nullptr ? transport_->rank() : 0;
  context_.agents = links.agents;
  context_.layout = layout;
  context_.peer_channels = &peer_channels_;
  Register();
  leases_.SetTerminate([this]() CUSPAN_REQUIRES(agent_thread) {
    clients_.EndAll();
    if (proxies_) proxies_->KillAll(kKillLimit);
  });
}

AgentNode::~AgentNode() { clients_.EndAll(); }

Result<std::unique_ptr<AgentNode>> AgentNode::Create(const InstallPaths& paths,
                                                     const Environment& proxy_environment,
                                                     AgentLinks links) {
  CUSPAN_ASSIGN_OR_RETURN(ChannelLayout layout, ChannelLayout::FromSettings());
  CUSPAN_ASSIGN_OR_RETURN(std::uint64_t sends, SettingNumber(settings::kSendsInFlight, 1, 64));
  CUSPAN_ASSIGN_OR_RETURN(std::optional<std::chrono::seconds> heartbeat, HeartbeatLimit());
  CUSPAN_ASSIGN_OR_RETURN(Poller poller, Poller::Create());
  CUSPAN_ASSIGN_OR_RETURN(Bell bell, Bell::Create());
  std::unique_ptr<AgentNode> node(
      new AgentNode(paths, proxy_environment, links, layout, std::move(poller), std::move(bell)));
  Transport* const transport = links.transport;
  if (transport == nullptr) return node;
  if (const int fd = transport->wake_fd(); fd >= 0) {
    // Only wakes the poller: the loop polls the transport in every round.
    CUSPAN_RETURN_IF_ERROR(
        node->poller_.Watch(fd, [&sleep = node->sleep_] { sleep.message = true; }));
    CUSPAN_RETURN_IF_ERROR(node->StartSleep(transport->rank() == 0));
  }
  CUSPAN_ASSIGN_OR_RETURN(node->carrier_,
                          MakeCarrier(*transport, std::move(links.lanes), node->bell_));
  AgentNode* const raw = node.get();
  node->context_.relay = &node->relay_.emplace(
      *transport, *node->carrier_, static_cast<std::uint32_t>(sends),
      Relay::Handlers{[raw](std::uint32_t rank, const Frame& frame)
                          CUSPAN_REQUIRES(agent_thread) { raw->ReceiveControl(rank, frame); },
                      [raw](RouteKey route, const std::string& reason)
                          CUSPAN_REQUIRES(agent_thread) { raw->HandleBroken(route, reason); }});
  if (heartbeat)
    node->heartbeats_.emplace(node->poller_, *node->relay_, *heartbeat,
                              [raw](std::uint32_t rank)
                                  CUSPAN_REQUIRES(agent_thread) { raw->HandleSilence(rank); });
  return node;
}

void AgentNode::Join(const Key128& secret, const std::string& run, const ShareTerms& share,
                     bool traced) {
  context_.run.secret = secret;
  context_.run.id = run;
  SetLogRun(run);
  context_.run.share = share;
  context_.proxies = &proxies_.emplace(poller_, proxy_, proxy_environment_, secret, share);
  if (std::getenv(kSecureHostsVariable) != nullptr) KeepProxiesSecure();
  if (traced) context_.run.trace = &trace_.emplace(context_.host);
}

void AgentNode::KeepProxiesSecure() {
  // An agent without encrypting interfaces was refused earlier. The user's own choice is
  // overwritten, since it could bypass encryption.
  const Result<std::set<std::string>> interfaces = SecureInterfacesOfRun();
  std::string list;
  if (interfaces.ok())
    for (const std::string& name : *interfaces) list += (list.empty() ? "=" : ",") + name;
  proxies_->Set("NCCL_SOCKET_IFNAME", list.empty() ? "lo" : list);
  proxies_->Set("NCCL_NET", "Socket");
}

void AgentNode::MeetHost(const std::string& host) {
  const std::string interface = InterfaceTowards(host);
  if (!interface.empty()) proxies_->SetDefault("NCCL_SOCKET_IFNAME", "=" + interface);
}

void AgentNode::StartHeartbeats() {
  if (heartbeats_) heartbeats_->Ask(context_.agents);
}

std::set<std::uint32_t> AgentNode::others() const {
  std::set<std::uint32_t> others;
  for (std::uint32_t rank = 0; rank < context_.agents; ++rank)
    if (rank != context_.rank && !context_.relay->gave_up(rank)) others.insert(rank);
  return others;
}

void AgentNode::HandleSilence(std::uint32_t rank) {
  const std::chrono::seconds::rep limit = heartbeats_->limit().count();
  if (rank != 0)
    return Lose(rank, Format("no message from {} for {} s: the host or the network to it is down",
                             NameOf(context_, rank), limit));
  if (head_lost_) head_lost_(Format("no message from the head agent for {} s", limit));
}

void AgentNode::ConsumeLost() {
  while (transport_ != nullptr) {
    std::optional<Transport::LostPeer> lost = transport_->ConsumeLost();
    if (!lost) lost = carrier_->ConsumeLost();
    if (!lost) return;
    if (relay()->gave_up(lost->rank)) continue;
    const std::string reason =
        Format("the agent of {} is gone: {}", NameOf(context_, lost->rank), lost->cause);
    if (context_.rank == 0) {
      Lose(lost->rank, reason);
    } else if (lost->rank != 0) {
      LogInfo("{}", reason);
      GiveUp(lost->rank, reason);
    } else if (head_lost_) {
      head_lost_(reason);
    }
  }
}

void AgentNode::Lose(std::uint32_t rank, const std::string& reason) {
  ++context_.errors.agents_lost;
  LogError("{}; its devices are lost", reason);
  for (std::uint32_t other = 1; other < context_.agents; ++other)
    if (other != rank) relay()->SendControl(other, AgentLost{rank, reason});
  GiveUp(rank, reason);
}

void AgentNode::GiveUp(std::uint32_t rank, const std::string& reason) {
  relay()->GiveUp(rank);
  clients_.LoseAgent(rank, reason);
  devices_.LoseAgent(rank, reason);
  peer_channels_.LoseAgent(relay(), rank);
}

void AgentNode::Register() {
  using From = ControlTable::From;
  clients_.Register(control_);
  devices_.Register(control_);
  leases_.Register(control_);
  control_.Handle<RemoteJoin>(
      From::kAny, [this](std::uint32_t rank, const RemoteJoin& join) CUSPAN_REQUIRES(agent_thread) {
        // A join for another agent's session concerns a device of this node.
        if (AgentOfSession(join.session) == context_.rank)
          clients_.ReceiveJoin(rank, join);
        else
          devices_.Join(join);
      });
  if (context_.rank == 0) {
    // Its arrival alone is the sign of life.
    control_.Handle<AgentAlive>(From::kWorkers, [](std::uint32_t, const AgentAlive&) {});
    return;
  }
  control_.Handle<AgentAlive>(
      From::kHead, [this](std::uint32_t, const AgentAlive&) CUSPAN_REQUIRES(agent_thread) {
        if (heartbeats_) heartbeats_->WatchHead();
        relay()->SendControl(0, AgentAlive{});
      });
  control_.Handle<AgentLost>(
      From::kHead, [this](std::uint32_t, const AgentLost& lost) CUSPAN_REQUIRES(agent_thread) {
        if (lost.rank != context_.rank && lost.rank < context_.agents)
          GiveUp(lost.rank, lost.reason);
      });
}

void AgentNode::ReceiveControl(std::uint32_t rank, const Frame& frame) {
  if (const Status handled = control_.Receive(rank, frame); !handled.ok())
    LogError("{}", handled.message());
}

void AgentNode::HandleBroken(RouteKey route, const std::string& reason) {
  if (AgentOfSession(route.session) == context_.rank)
    clients_.HandleBroken(route, reason);
  else
    devices_.HandleBroken(route, reason);
}

Status AgentNode::StartSleep(bool is_head) {
  if (is_head) {
    CUSPAN_ASSIGN_OR_RETURN(sleep_.on_bell, BellRinger::Start(bell_, poller_.fd()));
    return Status::Ok();
  }
  CUSPAN_ASSIGN_OR_RETURN(sleep_.on_descriptors, BellListener::Start(bell_));
  return poller_.Watch(sleep_.on_descriptors->fd(),
                       [listener = sleep_.on_descriptors.get()] { listener->Consume(); });
}

void AgentNode::Loop(const std::function<bool()>& step) {
  RunAgentLoop(poller_, relay(), &bell_, sleep_, [&]() CUSPAN_REQUIRES(agent_thread) {
    clients_.ForgetEnded();
    ConsumeLost();
    return step();
  });
}

void AgentNode::Drain(const std::function<bool()>& more) {
  RunAgentLoop(poller_, relay(), &bell_, sleep_, [&]() CUSPAN_REQUIRES(agent_thread) {
    ConsumeLost();
    return more() || !relay()->quiet();
  });
}

void AgentNode::EndAll(std::chrono::milliseconds patience) {
  clients_.EndAll();
  if (proxies_) {
    if (patience.count() > 0) proxies_->WaitEnds(patience);
    devices_.EndAll();
    proxies_->KillAll(kKillLimit);
  }
  // No process uses a GPU any more.
  leases_.Leave();
}

void AgentNode::Disconnect() {
  if (transport_ == nullptr) return;
  if (others().size() + 1 == context_.agents) carrier_->End();
  transport_->Shutdown();
}

}  // namespace cuspan

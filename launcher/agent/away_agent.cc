#include "launcher/agent/away_agent.h"

#include <unistd.h>

#include <algorithm>

#include "common/log.h"
#include "common/settings.h"
#include "launcher/agent/agent_loop.h"
#include "launcher/agent/descriptors.h"
#include "launcher/agent/inventory.h"
#include "launcher/agent/startup.h"
#include "launcher/agent_cluster.h"

namespace cuspan {
namespace {

constexpr std::chrono::milliseconds kKillLimit{2'000};
// For the whole end of the agents; after it this process ends by force.
constexpr unsigned kShutdownSeconds = 5;
// The same where this node's traces have to go home.
constexpr unsigned kTraceSeconds = 60;
constexpr std::chrono::milliseconds kTraceEndLimit{1'000};

}  // namespace

AwayAgent::AwayAgent(const AgentOptions& options, const InstallPaths& paths,
                     const Environment& proxy_environment, Transport& transport,
                     std::uint32_t agents, ChannelLayout layout, std::uint32_t sends_in_flight,
                     Poller poller, std::unique_ptr<Bell> bell, std::unique_ptr<Carrier> carrier)
    : options_(options),
      paths_(paths),
      proxy_environment_(proxy_environment),
      host_(OwnHostName()),
      transport_(transport),
      agents_(agents),
      layout_(layout),
      poller_(std::move(poller)),
      bell_(std::move(bell)),
      carrier_(std::move(carrier)),
      relay_(transport, *carrier_, sends_in_flight,
             {[this](std::uint32_t rank, const Frame& frame) { TakeControl(rank, frame); },
              [this](RouteKey route, const std::string& reason) {
                const std::optional<RouteKey> device =
                    IsJoinRoute(route) ? peer_channels_.DeviceOf(route) : route;
                if (device) EndProxy(*device, Format("its proxy broke the protocol: {}", reason));
              }}),
      peer_channels_(*bell_, layout) {}

Result<std::unique_ptr<AwayAgent>> AwayAgent::Create(const AgentOptions& options,
                                                     const InstallPaths& paths,
                                                     const Environment& proxy_environment,
                                                     Transport& transport, const Ranks& ranks) {
  Result<ChannelLayout> layout = ChannelLayout::FromSettings();
  if (!layout.ok()) return layout.status();
  Result<std::uint64_t> sends = SettingNumber(settings::kSendsInFlight, 1, 64);
  if (!sends.ok()) return sends.status();
  Result<Poller> poller = Poller::Create();
  if (!poller.ok()) return poller.status();
  Result<Bell> bell = Bell::Create();
  if (!bell.ok()) return bell.status();
  auto own_bell = std::make_unique<Bell>(std::move(*bell));
  Result<std::unique_ptr<Carrier>> carrier = MakeCarrier(transport, ranks, *own_bell);
  if (!carrier.ok()) return carrier.status();
  std::unique_ptr<AwayAgent> away(
      new AwayAgent(options, paths, proxy_environment, transport, ranks.agents, *layout,
                    static_cast<std::uint32_t>(*sends), std::move(*poller), std::move(own_bell),
                    std::move(*carrier)));
  return away;
}

bool AwayAgent::Meet(const RunKey* key) {
  Result<AgentHello> home = AwaitInvitation(transport_, key, host_);
  if (!home.ok()) return false;  // The home agent says it.
  proxies_.emplace(poller_, paths_.proxy, proxy_environment_, home->secret);
  if (home->trace) trace_.emplace(host_);

  AgentInventory answer;
  answer.rank = transport_.rank();
  answer.limit = options_.serve.value_or(kAllDevices);
  // Of one node if the names are the same and the home agent's socket, which only its own
  // network namespace has, is there.
  answer.same_node =
      home->same_node && home->host == host_ && ControlSocket::Connect(home->address).ok();
  if (!answer.same_node) {
    Inventory inventory = TakeInventory(*proxies_, options_.device, host_, answer.rank);
    inventory_ = inventory.devices;
    answer.problem = std::move(inventory.problem);
    answer.devices = std::move(inventory.devices);
  }
  SendInventory(transport_, answer);
  return true;
}

void AwayAgent::Serve() {
  RunAgentLoop(poller_, &relay_, &*bell_, [this] { return !run_ended_; });
  ::alarm(trace_ ? kTraceSeconds : kShutdownSeconds);
  // They still record what was under way.
  if (trace_) proxies_->WaitEnds(kTraceEndLimit);
  EndAll();
  if (trace_)
    trace_->ForEachPart(transport_.rank(),
                        [this](const TracePart& part) { relay_.SendControl(0, part); });
  relay_.SendControl(0, AgentShutdown{});
  RunAgentLoop(poller_, &relay_, &*bell_, [this] { return !relay_.quiet(); });
  Leave();
  ::alarm(0);
}

void AwayAgent::Leave() {
  carrier_->End();
  transport_.Shutdown();
}

void AwayAgent::EndAll() {
  for (const auto& [key, device] : devices_) {
    relay_.Close(key);
    if (device.channel) device.channel->Close(false);
  }
  devices_.clear();
  proxies_->KillAll(kKillLimit);
}

void AwayAgent::TakeControl(std::uint32_t rank, const Frame& frame) {
  if (rank == 0 && frame.op() == Op::kRemoteOpen) {
    const Result<RemoteOpen> open = ParseMessage<RemoteOpen>(frame);
    if (open.ok()) return Open(*open);
    LogError("from the home agent: {}", open.status().message());
  } else if (rank == 0 && frame.op() == Op::kRemoteClose) {
    const Result<RemoteClose> close = ParseMessage<RemoteClose>(frame);
    if (close.ok()) return Close({close->session, close->device});
    LogError("from the home agent: {}", close.status().message());
  } else if (frame.op() == Op::kRemoteJoin) {
    const Result<RemoteJoin> join = ParseMessage<RemoteJoin>(frame);
    if (join.ok()) return Join(*join);
    LogError("from agent {}: {}", rank, join.status().message());
  } else if (frame.op() == Op::kRemoteUnjoin) {
    const Result<RemoteUnjoin> unjoin = ParseMessage<RemoteUnjoin>(frame);
    if (unjoin.ok()) return peer_channels_.Close(&relay_, JoinRoute(unjoin->session, unjoin->join));
    LogError("from agent {}: {}", rank, unjoin.status().message());
  } else if (rank == 0 && frame.op() == Op::kTraceClock) {
    const Result<TraceClock> question = ParseMessage<TraceClock>(frame);
    if (question.ok()) return relay_.SendControl(0, TraceClock{question->asked, TraceNow()});
    LogError("from the home agent: {}", question.status().message());
  } else if (rank == 0 && frame.op() == Op::kAgentShutdown) {
    run_ended_ = true;
  } else {
    LogError("agent {} sent op {} ({}), which is not for agent {}", rank, frame.header.op,
             OpName(frame.op()), transport_.rank());
  }
}

void AwayAgent::Open(const RemoteOpen& open) {
  const RouteKey key{open.session, open.device};
  if (devices_.contains(key)) return LogError("the home agent opens device {} twice", open.device);
  Result<Device> device = StartDevice(open);
  if (!device.ok()) {
    relay_.SendControl(0, RemoteOpened{open.session,
                                       open.device,
                                       kDeviceUnavailable,
                                       device.status().message(),
                                       {},
                                       false,
                                       ""});
    return;
  }
  devices_[key] = std::move(*device);
}

Result<AwayAgent::Device> AwayAgent::StartDevice(const RemoteOpen& open) {
  const auto description = std::find_if(
      inventory_.begin(), inventory_.end(),
      [&open](const DeviceDescription& known) { return known.ordinal == open.ordinal; });
  if (description == inventory_.end())
    return Status::NotFound("host {} has no GPU {}", host_, open.ordinal);
  Result<UniqueFd> fd = Channel::Create(layout_);
  if (!fd.ok()) return fd.status();
  ProxyRequest request;
  request.driver = DriverOf(*description);
  request.ordinal = open.ordinal;
  request.name = Format("{}:{}", host_, open.ordinal);
  request.window = open.window;
  request.shared = open.shared;
  request.channel = fd->get();
  request.peer_bell = bell_->fd();
  UniqueFd trace;
  if (trace_)
    trace = trace_->AddProcess(Format("GPU {} for device {}", open.ordinal, open.device),
                               open.session, open.device, false);
  request.trace = trace.get();
  const RouteKey key{open.session, open.device};
  Result<std::shared_ptr<ProxyProcess>> proxy =
      proxies_->Start(request, {[this, key](const ProxyReady& ready) { TakeReady(key, ready); },
                                [this, key](const std::string& reason) { TakeGone(key, reason); }});
  if (!proxy.ok()) return proxy.status();
  Device device;
  device.proxy = *proxy;
  Result<Bell> proxy_bell = Duplicate(device.proxy->bell());
  Status attached = proxy_bell.status();
  if (proxy_bell.ok()) {
    Result<std::unique_ptr<Channel>> channel = Channel::AttachAndKeep(
        std::move(*fd), ChannelSide::kClient, &*bell_, std::move(*proxy_bell));
    attached = channel.status();
    if (channel.ok()) device.channel = std::move(*channel);
  }
  if (attached.ok()) return device;
  device.proxy->End({});
  return attached;
}

void AwayAgent::TakeReady(RouteKey key, const ProxyReady& ready) {
  const auto found = devices_.find(key);
  if (found == devices_.end() || found->second.state != State::kOpening) return;
  // The home agent must know the route before anything comes over it.
  relay_.SendControl(0, RemoteOpened{key.session, key.device, ready.result, ready.message,
                                     ready.window, ready.shared, ready.exchange});
  if (ready.result == 0) {
    found->second.state = State::kOpen;
    relay_.Open(key, 0, found->second.channel);
    return;
  }
  found->second.proxy->End({});
  devices_.erase(found);
}

void AwayAgent::TakeGone(RouteKey key, const std::string& reason) {
  const auto found = devices_.find(key);
  if (found == devices_.end()) return;
  if (found->second.state == State::kOpen) {
    // What it said last goes ahead of the news.
    relay_.Flush(key);
    relay_.Close(key);
    peer_channels_.Forget(&relay_, key);
  }
  devices_.erase(found);
  relay_.SendControl(0, RemoteLost{key.session, key.device, reason});
}

void AwayAgent::Join(const RemoteJoin& join) {
  const auto end_of = [&](std::uint32_t number) -> std::optional<PeerChannels::End> {
    const auto found = devices_.find({join.session, number});
    if (found == devices_.end() || found->second.state != State::kOpen) return std::nullopt;
    return PeerChannels::End{found->first, found->second.proxy.get()};
  };
  const RouteKey route = JoinRoute(join.session, join.join);
  const std::optional<PeerChannels::End> end = end_of(join.device);
  if (join.rank == transport_.rank()) {
    // Of one that is gone the client hears by itself.
    const std::optional<PeerChannels::End> peer = end_of(join.peer);
    if (end && peer) return peer_channels_.JoinHere(route, *end, *peer);
    for (const auto& one : {end, peer})
      if (one) PeerChannels::Refuse(route, *one);
    return;
  }
  if (join.rank >= agents_)
    return LogError("a device is to be joined to one of agent {}, which is none", join.rank);
  if (!end) return relay_.SendControl(join.rank, RemoteUnjoin{join.session, join.join});
  if (join.tell)
    relay_.SendControl(join.rank, RemoteJoin{join.session, join.join, join.peer, join.device,
                                             transport_.rank(), false});
  peer_channels_.JoinAway(relay_, route, *end, join.rank);
}

void AwayAgent::Close(RouteKey key) {
  // One whose proxy has died, of which the home agent had not heard, is not there any more.
  if (devices_.contains(key)) EndProxy(key, "it was closed");
}

void AwayAgent::EndProxy(RouteKey key, const std::string& reason) {
  const auto found = devices_.find(key);
  if (found == devices_.end() || found->second.state == State::kClosing) return;
  Device& device = found->second;
  device.state = State::kClosing;
  relay_.Close(key);
  peer_channels_.Forget(&relay_, key);
  device.channel->Close(false);
  device.proxy->End([this, key, reason] {
    devices_.erase(key);
    relay_.SendControl(0, RemoteLost{key.session, key.device, reason});
  });
}

}  // namespace cuspan

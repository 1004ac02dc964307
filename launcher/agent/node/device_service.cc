#include "launcher/agent/node/device_service.h"

#include <algorithm>

#include "common/cuda_error_numbers.h"
#include "common/log.h"
#include "launcher/agent/base/descriptors.h"
#include "launcher/agent/node/inventory.h"
#include "launcher/agent/node/share_location.h"

namespace cuspan {

void DeviceService::Register(ControlTable& control) {
  // Only a session's own agent may control its devices.
  const auto owns = [](std::uint32_t rank, std::uint32_t session) {
    if (AgentOfSession(session) == rank) return true;
    LogError("agent {} may not control session {}: it belongs to another agent", rank, session);
    return false;
  };
  control.Handle<RemoteOpen>(ControlTable::From::kAny,
                             [this, owns](std::uint32_t rank, const RemoteOpen& open)
                                 CUSPAN_REQUIRES(agent_thread) {
                                   if (owns(rank, open.session)) Open(rank, open);
                                 });
  control.Handle<RemoteClose>(ControlTable::From::kAny,
                              [this, owns](std::uint32_t rank, const RemoteClose& close)
                                  CUSPAN_REQUIRES(agent_thread) {
                                    if (owns(rank, close.session))
                                      Close({close.session, close.context});
                                  });
  control.Handle<RemoteUnjoin>(
      ControlTable::From::kAny,
      [this](std::uint32_t, const RemoteUnjoin& unjoin) CUSPAN_REQUIRES(agent_thread) {
        context_.peer_channels->Close(context_.relay, JoinRoute(unjoin.session, unjoin.join));
      });
}

void DeviceService::HandleBroken(RouteKey route, const std::string& reason) {
  const std::optional<RouteKey> device =
      IsJoinRoute(route) ? context_.peer_channels->DeviceOf(route) : route;
  if (device) EndProxy(*device, Format("its proxy violated the protocol: {}", reason));
}

void DeviceService::LoseAgent(std::uint32_t rank, const std::string& reason) {
  std::vector<RouteKey> lost;
  for (const auto& [key, device] : devices_)
    if (AgentOfSession(key.session) == rank) lost.push_back(key);
  for (const RouteKey key : lost) EndProxy(key, reason);
}

void DeviceService::EndAll() {
  for (const auto& [key, device] : devices_) {
    context_.relay->Close(key);
    if (device.channel) device.channel->Close(false);
  }
  devices_.clear();
}

void DeviceService::Open(std::uint32_t rank, const RemoteOpen& open) {
  const RouteKey key{open.session, open.context};
  if (devices_.contains(key))
    return LogError("agent {} opened device {} twice", rank, open.context);
  Result<Device> device = StartDevice(open);
  if (!device.ok()) {
    context_.relay->SendControl(rank, RemoteOpened{open.session,
                                                   open.context,
                                                   cuda::CUDA_ERROR_DEVICE_UNAVAILABLE,
                                                   device.status().message(),
                                                   {},
                                                   false,
                                                   "",
                                                   0});
    return;
  }
  devices_[key] = std::move(*device);
}

Result<DeviceService::Device> DeviceService::StartDevice(const RemoteOpen& open) {
  const auto description = std::find_if(
      inventory_.begin(), inventory_.end(),
      [&open](const DeviceDescription& known) { return known.ordinal == open.ordinal; });
  if (description == inventory_.end())
    return Status::NotFound("host {} has no GPU {}", context_.host, open.ordinal);
  CUSPAN_RETURN_IF_ERROR(CheckDescriptorsFor(kDeviceDescriptors));
  CUSPAN_ASSIGN_OR_RETURN(UniqueFd fd, Channel::Create(context_.layout));
  ProxyRequest request;
  request.driver = DriverOf(*description);
  request.ordinal = open.ordinal;
  request.name = Format("{}:{} session {}", context_.host, open.ordinal, open.session);
  request.run = context_.run.id;
  request.session = open.session;
  request.window = open.window;
  request.shared = open.shared;
  request.channel = fd.get();
  request.peer_bell = context_.bell.fd();
  UniqueFd trace;
  if (context_.run.trace != nullptr && !open.observe)
    trace =
        context_.run.trace->AddProcess(Format("GPU {} for device {}", open.ordinal, open.context),
                                       open.session, open.context, false);
  request.trace = trace.get();
  CUSPAN_ASSIGN_OR_RETURN(ShareLocation share, FindShareLocation(context_, *description));
  request.share = share.table.get();
  request.share_location = share.run;
  request.lease = context_.leases.LeaseFd(*description);
  request.niceness = open.niceness;
  request.observe = open.observe;
  request.uuid = description->uuid;
  const RouteKey key{open.session, open.context};
  CUSPAN_ASSIGN_OR_RETURN(
      std::shared_ptr<ProxyProcess> proxy,
      context_.proxies->Start(request,
                              {[this, key](const ProxyReady& ready)
                                   CUSPAN_REQUIRES(agent_thread) { ReceiveReady(key, ready); },
                               [this, key](const std::string& reason)
                                   CUSPAN_REQUIRES(agent_thread) { HandleGone(key, reason); }}));
  Device device;
  device.proxy = proxy;
  Result<Bell> proxy_bell = Duplicate(device.proxy->bell());
  Status attached = proxy_bell.status();
  if (proxy_bell.ok()) {
    Result<std::unique_ptr<Channel>> channel =
        Channel::Attach(std::move(fd), ChannelSide::kClient, &context_.bell, std::move(*proxy_bell),
                        ChannelFile::kKeep);
    attached = channel.status();
    if (channel.ok()) device.channel = std::move(*channel);
  }
  if (attached.ok()) return device;
  device.proxy->End({});
  return attached;
}

void DeviceService::ReceiveReady(RouteKey key, const ProxyReady& ready) {
  const auto found = devices_.find(key);
  if (found == devices_.end() || found->second.state != State::kOpening) return;
  const std::uint32_t rank = AgentOfSession(key.session);
  // The session's agent must open the route before anything is sent over it.
  context_.relay->SendControl(
      rank, RemoteOpened{key.session, key.context, ready.result, ready.message, ready.window,
                         ready.shared, ready.exchange, ready.process});
  if (ready.result == 0) {
    found->second.state = State::kOpen;
    context_.relay->Open(key, rank, found->second.channel);
    return;
  }
  found->second.proxy->End({});
  devices_.erase(found);
}

void DeviceService::HandleGone(RouteKey key, const std::string& reason) {
  const auto found = devices_.find(key);
  if (found == devices_.end()) return;
  if (found->second.state == State::kOpen) {
    // The proxy's last frames precede the report of its loss.
    context_.relay->Flush(key);
    context_.relay->Close(key);
    context_.peer_channels->Forget(context_.relay, key);
  }
  devices_.erase(found);
  context_.relay->SendControl(AgentOfSession(key.session),
                              RemoteLost{key.session, key.context, reason});
}

void DeviceService::Join(const RemoteJoin& join) {
  const auto end_of = [&](std::uint32_t number) -> std::optional<PeerChannels::End> {
    const auto found = devices_.find({join.session, number});
    if (found == devices_.end() || found->second.state != State::kOpen) return std::nullopt;
    return PeerChannels::End{found->first, found->second.proxy.get()};
  };
  const RouteKey route = JoinRoute(join.session, join.join);
  const std::optional<PeerChannels::End> end = end_of(join.context);
  if (join.rank == context_.rank) {
    // The loss of a device is reported to the client separately.
    const std::optional<PeerChannels::End> peer = end_of(join.peer);
    if (end && peer) return context_.peer_channels->JoinHere(route, *end, *peer);
    for (const auto& one : {end, peer})
      if (one) PeerChannels::Refuse(route, *one);
    return;
  }
  if (join.rank == kNoAgent) {
    if (end) PeerChannels::Refuse(route, *end);
    return;
  }
  if (join.rank >= context_.agents)
    return LogError("a device cannot be connected to a device of agent {}: there is no such agent",
                    join.rank);
  if (!end) return context_.relay->SendControl(join.rank, RemoteUnjoin{join.session, join.join});
  if (join.tell)
    context_.relay->SendControl(join.rank, RemoteJoin{join.session, join.join, join.peer,
                                                      join.context, context_.rank, false});
  context_.peer_channels->JoinRemote(*context_.relay, route, *end, join.rank);
}

void DeviceService::Close(RouteKey key) {
  // Missing if its proxy has died and the session's agent was not yet notified.
  if (devices_.contains(key)) EndProxy(key, "it was closed");
}

void DeviceService::EndProxy(RouteKey key, const std::string& reason) {
  const auto found = devices_.find(key);
  if (found == devices_.end() || found->second.state == State::kClosing) return;
  Device& device = found->second;
  device.state = State::kClosing;
  context_.relay->Close(key);
  context_.peer_channels->Forget(context_.relay, key);
  device.channel->Close(false);
  device.proxy->End([this, key, reason]() CUSPAN_REQUIRES(agent_thread) {
    devices_.erase(key);
    context_.relay->SendControl(AgentOfSession(key.session),
                                RemoteLost{key.session, key.context, reason});
  });
}

}  // namespace cuspan

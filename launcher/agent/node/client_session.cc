#include "launcher/agent/node/client_session.h"

#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "common/cuda_error_numbers.h"
#include "common/log.h"
#include "launcher/agent/base/descriptors.h"
#include "launcher/agent/node/device_use.h"
#include "launcher/agent/node/inventory.h"
#include "launcher/agent/node/share_location.h"
#include "launcher/agent/node/visible_devices.h"
#include "launcher/run/run_key.h"

namespace cuspan {

namespace {

// Maximum number of messages read from one session before others are served.
constexpr int kMaxMessagesAtOnce = 16;
// Pause in reading while the relay is congested.
constexpr std::chrono::milliseconds kCongestionRest{5};
// An honest client joins two contexts once, and may retry after a failure.
constexpr unsigned kMaxJoins = 8;
// Maximum number of joined pairs of contexts. The address space has room for fewer.
constexpr std::size_t kMaxPairs = 4096;
// Maximum length of a process's own name in messages and in the log; it may be anything.
constexpr std::size_t kMaxOfName = 255;

// Niceness of the process at the other end; 0 if unknown.
int NicenessOf(int socket) {
  ucred peer{};
  socklen_t bytes = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0) return 0;
  errno = 0;
  const int niceness = ::getpriority(PRIO_PROCESS, static_cast<id_t>(peer.pid));
  return errno == 0 ? niceness : 0;
}

}  // namespace

Result<std::shared_ptr<ClientSession>> ClientSession::Start(NodeContext& context,
                                                            Reception::Arrival arrival,
                                                            std::uint32_t id,
                                                            DeviceReports& reports) {
  std::shared_ptr<ClientSession> session(
      new ClientSession(context, std::move(arrival.socket), id, reports));
  ClientSession* const raw = session.get();
  const auto refuse = [&](const Status& why) CUSPAN_REQUIRES(agent_thread) {
    context.poller.Forget(session->socket_.fd());
    static_cast<void>(session->socket_.Post(Refused{why.message()}));
    session->ended_ = true;
    return why;
  };
  if (const Status room = CheckDescriptorsFor(kSessionDescriptors); !room.ok()) return refuse(room);
  // End removes the descriptor before the session is destroyed.
  if (const Status watched = context.poller.Watch(
          session->socket_.fd(), [raw]() CUSPAN_REQUIRES(agent_thread) { raw->HandleSocket(); });
      !watched.ok())
    return refuse(watched);
  if (const Status known = session->Introduce(arrival.first.frame); !known.ok())
    return refuse(known);
  // More messages may have arrived with the greeting.
  session->ReadSocket();
  return session;
}

void ClientSession::HandleSocket() {
  if (socket_.kept() != 0) {
    if (!socket_.Flush().ok()) return End("");
    UpdateInterest();
  }
  ReadSocket();
}

void ClientSession::ReadSocket() {
  // If a client does not read its answers, its messages are not read.
  for (int taken = 0; !ended_ && !rests_ && socket_.kept() == 0; ++taken) {
    if (context_.relay != nullptr && context_.relay->congested()) return ReadLater(kCongestionRest);
    if (taken == kMaxMessagesAtOnce) return ReadLater(std::chrono::milliseconds(0));
    Result<std::optional<ControlSocket::Message>> message = socket_.TryReceive();
    if (!message.ok()) {
      const bool left = message.status().code() == StatusCode::kUnavailable;
      return End(left ? "" : message.status().message());
    }
    if (!message->has_value()) return;
    if (const Status taken_well = ReceiveMessage((*message)->frame); !taken_well.ok())
      return End(taken_well.message());
  }
}

void ClientSession::ReadLater(std::chrono::milliseconds delay) {
  rests_ = true;
  UpdateInterest();
  context_.poller.After(delay, [weak = weak_from_this()]() CUSPAN_REQUIRES(agent_thread) {
    const auto session = weak.lock();
    if (!session || session->ended_) return;
    session->rests_ = false;
    session->UpdateInterest();
    session->ReadSocket();
  });
}

void ClientSession::UpdateInterest() {
  context_.poller.SetInterest(socket_.fd(), socket_.kept() != 0 ? Poller::Interest::kWrite
                                            : rests_            ? Poller::Interest::kNothing
                                                                : Poller::Interest::kRead);
}

Status ClientSession::ReceiveMessage(const Frame& frame) {
  switch (frame.op()) {
    case Op::kOpenDevice: {
      Result<OpenDevice> open = ParseMessage<OpenDevice>(frame);
      return open.ok() ? Open(*open) : open.status();
    }
    case Op::kCloseDevice: {
      Result<CloseDevice> close = ParseMessage<CloseDevice>(frame);
      return close.ok() ? Close(close->context) : close.status();
    }
    case Op::kJoinDevices: {
      Result<JoinDevices> join = ParseMessage<JoinDevices>(frame);
      return join.ok() ? Join(*join) : join.status();
    }
    default:
      return Status::Invalid("op {} ({}) is not a message from a client to its agent",
                             frame.header.op, OpName(frame.op()));
  }
}

Status ClientSession::Introduce(const Frame& frame) {
  CUSPAN_ASSIGN_OR_RETURN(ClientHello hello, ParseMessage<ClientHello>(frame));
  hello.program.resize(std::min(hello.program.size(), kMaxOfName));
  if (!SameSecret(hello.secret, context_.run.secret))
    return Status::Refused("process {} ({}) does not know this run's secret", hello.pid,
                           hello.program);
  if (hello.table_hash != kOpTableHash)
    return Status::Refused(
        "the client in process {} ({}) and the agent on host {} run different versions of cuspan: "
        "install one version everywhere",
        hello.pid, hello.program, context_.host);
  CUSPAN_ASSIGN_OR_RETURN(Bell bell, OpenForeignBell(socket_.ExtractFd()));
  CUSPAN_ASSIGN_OR_RETURN(VisibleChoice visible,
                          ChooseVisible(context_.run.devices, hello.visible));
  visible_ = std::move(visible.devices);
  bell_.emplace(std::move(bell));
  program_ = Format("{} (process {})", hello.program, hello.pid);
  observer_ = hello.observer;
  niceness_ = NicenessOf(socket_.fd());
  LogInfo("session {}: {}", id_, program_);
  UniqueFd trace;
  // An observer's process has another session if it uses a device.
  if (context_.run.trace != nullptr && !observer_)
    trace = context_.run.trace->AddProcess(program_, id_, 0, true);
  const int fds[] = {trace.get()};
  std::vector<DeviceDescription> devices;
  for (const std::uint32_t number : visible_) devices.push_back(context_.run.devices[number]);
  const bool in_host_memory = std::all_of(devices.begin(), devices.end(),
                                          [&](const auto& device) CUSPAN_REQUIRES(agent_thread) {
                                            return device.software && !IsRelayed(device);
                                          });
  for (DeviceDescription& device : devices) device.in_host_memory = in_host_memory;
  Answer(Welcome{id_, context_.run.id, visible.result, std::move(devices), trace.valid()},
         std::span(fds, trace.valid() ? 1 : 0));
  return Status::Ok();
}

std::string ClientSession::Describe(const Device& device) const {
  const DeviceDescription& description = Description(device);
  return Format("device {} ({} {} on host {})", device.number, description.name,
                description.ordinal, description.host);
}

// --- Opening.

Status ClientSession::CheckOpen(const OpenDevice& open) const {
  if (open.device >= visible_.size())
    return Status::Invalid("device {} was requested, but the process sees only {} devices",
                           open.device, visible_.size());
  const bool primary = open.context < visible_.size();
  if ((primary && open.context != open.device) || open.context >= kJoinRoutes)
    return Status::Invalid("context {} was requested on device {}", open.context, open.device);
  if (devices_.contains(open.context))
    return Status::Invalid("context {} was requested twice", open.context);
  return Status::Ok();
}

Result<AddressWindow> ClientSession::WindowFor(const OpenDevice& open) const {
  const AddressWindow& own = context_.run.windows[visible_[open.device]];
  if (open.context < visible_.size()) return own;
  // Further contexts get windows after those of all devices.
  AddressWindow window = context_.run.windows.front();
  const std::uint64_t end = window.base + window.stride;
  window.base += context_.run.windows.size() * window.bytes;
  const auto used = [this, &window] {
    return std::any_of(devices_.begin(), devices_.end(), [&](const auto& opened) {
      return opened.second.window.base == window.base;
    });
  };
  while (window.base < end && used()) window.base += window.bytes;
  if (window.base >= end)
    return Status::Exhausted("this process has too many contexts: no address window is free");
  return window;
}

Status ClientSession::Open(const OpenDevice& open) {
  UniqueFd shared_file;
  if (open.shared.bytes != 0) {
    shared_file = socket_.ExtractFd();
    if (!shared_file.valid()) return Status::Invalid("a shared region arrived without its file");
  }
  CUSPAN_RETURN_IF_ERROR(CheckOpen(open));
  std::erase_if(joins_, [&open](const auto& joined) {
    return joined.first.first == open.context || joined.first.second == open.context;
  });
  const Result<AddressWindow> window = WindowFor(open);
  Device& device = devices_[open.context];
  device.number = open.device;
  device.relayed = IsRelayed(Description(device));
  if (!window.ok()) {
    AnswerFailed(open.context, cuda::CUDA_ERROR_OUT_OF_MEMORY, window.status().message());
    return Status::Ok();
  }
  device.window = *window;
  const Status opened =
      device.relayed ? OpenRemote(open, device) : OpenHere(open, std::move(shared_file), device);
  if (!opened.ok())
    AnswerFailed(open.context, cuda::CUDA_ERROR_DEVICE_UNAVAILABLE, opened.message());
  return Status::Ok();
}

Status ClientSession::OpenHere(const OpenDevice& open, UniqueFd shared_file, Device& device) {
  CUSPAN_RETURN_IF_ERROR(CheckDescriptorsFor(kDeviceDescriptors));
  const DeviceDescription& description = Description(device);
  CUSPAN_ASSIGN_OR_RETURN(device.channel_fd, Channel::Create(context_.layout));

  ProxyRequest request;
  request.driver = DriverOf(description);
  request.ordinal = description.ordinal;
  request.name = Format("{}:{} session {}", description.host, description.ordinal, id_);
  request.run = context_.run.id;
  request.session = id_;
  request.window = device.window;
  request.channel = device.channel_fd.get();
  request.peer_bell = bell_->fd();
  request.shared = open.shared;
  request.shared_file = shared_file.get();
  request.file_bytes = open.file_bytes;
  UniqueFd trace;
  if (context_.run.trace != nullptr && !observer_)
    trace = context_.run.trace->AddProcess(
        Format("GPU {} for device {}", description.ordinal, open.device), id_, open.context, false);
  request.trace = trace.get();
  ShareLocation share;
  if (!observer_) {
    CUSPAN_ASSIGN_OR_RETURN(share, FindShareLocation(context_, description));
  }
  request.share = share.table.get();
  request.share_location = share.run;
  request.lease = context_.leases.LeaseFd(description);
  request.niceness = niceness_;
  request.observe = observer_;
  request.uuid = description.uuid;
  const std::weak_ptr<ClientSession> weak = weak_from_this();
  ProxyPool::Handlers handlers;
  handlers.ready = [weak, context = open.context](const ProxyReady& ready)
                       CUSPAN_REQUIRES(agent_thread) {
                         if (const auto session = weak.lock())
                           session->ReceiveReady(context, ready);
                       };
  handlers.gone = [weak, context = open.context](const std::string& reason)
                      CUSPAN_REQUIRES(agent_thread) {
                        if (const auto session = weak.lock()) session->HandleGone(context, reason);
                      };
  CUSPAN_ASSIGN_OR_RETURN(device.proxy, context_.proxies->Start(request, std::move(handlers)));

  // The agent also attaches: it reads the client's counters, and closes the channel when either
  // side is gone.
  CUSPAN_ASSIGN_OR_RETURN(UniqueFd own_fd, Duplicate(device.channel_fd.get()));
  CUSPAN_ASSIGN_OR_RETURN(Bell proxy_bell, Duplicate(device.proxy->bell()));
  CUSPAN_ASSIGN_OR_RETURN(device.channel, Channel::Attach(std::move(own_fd), ChannelSide::kClient,
                                                          &*bell_, std::move(proxy_bell)));
  return Status::Ok();
}

Status ClientSession::OpenRemote(const OpenDevice& open, Device& device) {
  const DeviceDescription& description = Description(device);
  if (context_.relay->gave_up(description.agent))
    return Status::Unavailable("its host was lost and is no longer part of this run");
  CUSPAN_RETURN_IF_ERROR(CheckDescriptorsFor(kDeviceDescriptors));
  CUSPAN_ASSIGN_OR_RETURN(device.channel_fd, Channel::Create(context_.layout));
  CUSPAN_ASSIGN_OR_RETURN(UniqueFd own_fd, Duplicate(device.channel_fd.get()));
  CUSPAN_ASSIGN_OR_RETURN(Bell client_bell, Duplicate(*bell_));
  CUSPAN_ASSIGN_OR_RETURN(device.channel,
                          Channel::Attach(std::move(own_fd), ChannelSide::kProxy, &context_.bell,
                                          std::move(client_bell), ChannelFile::kKeep));
  context_.relay->SendControl(description.agent,
                              RemoteOpen{id_, open.context, description.ordinal, device.window,
                                         open.shared, niceness_, observer_});
  return Status::Ok();
}

// --- Channels between two devices.

Status ClientSession::Join(const JoinDevices& join) {
  if (join.join == 0 || join.join >= kJoinRoutes || join.first == join.second)
    return Status::Invalid("contexts {} and {} cannot be connected under number {}", join.first,
                           join.second, join.join);
  const auto first = devices_.find(join.first);
  const auto second = devices_.find(join.second);
  if (++joins_[std::minmax(join.first, join.second)] > kMaxJoins || joins_.size() > kMaxPairs)
    return Status::Invalid("contexts {} and {} were connected too often", join.first, join.second);
  const RouteKey route = JoinRoute(id_, join.join);
  // Losses are reported to the client separately; another thread may have reset a context.
  const auto open = [this](auto found) {
    return found != devices_.end() && found->second.state == State::kOpen;
  };
  if (!open(first) || !open(second)) {
    for (const auto& found : {first, second}) {
      if (!open(found)) continue;
      if (found->second.relayed)
        context_.relay->SendControl(
            RankOf(found->second),
            RemoteJoin{id_, join.join, found->first, found->first, kNoAgent, false});
      else
        PeerChannels::Refuse(route, {{id_, found->first}, found->second.proxy.get()});
    }
    return Status::Ok();
  }
  if (first->second.relayed) {
    context_.relay->SendControl(
        RankOf(first->second),
        RemoteJoin{id_, join.join, join.first, join.second, RankOf(second->second), true});
  } else if (second->second.relayed) {
    const std::uint32_t rank = RankOf(second->second);
    context_.relay->SendControl(
        rank, RemoteJoin{id_, join.join, join.second, join.first, context_.rank, false});
    context_.peer_channels->JoinRemote(*context_.relay, route,
                                       {{id_, join.first}, first->second.proxy.get()}, rank);
  } else {
    context_.peer_channels->JoinHere(route, {{id_, join.first}, first->second.proxy.get()},
                                     {{id_, join.second}, second->second.proxy.get()});
  }
  return Status::Ok();
}

void ClientSession::ReceiveRemoteJoin(const RemoteJoin& join) {
  const auto found = devices_.find(join.context);
  if (ended_ || found == devices_.end() || found->second.state != State::kOpen ||
      !found->second.proxy) {
    context_.relay->SendControl(join.rank, RemoteUnjoin{join.session, join.join});
    return;
  }
  context_.peer_channels->JoinRemote(*context_.relay, JoinRoute(id_, join.join),
                                     {{id_, join.context}, found->second.proxy.get()}, join.rank);
}

void ClientSession::ReceiveReady(std::uint32_t context, const ProxyReady& ready) {
  const auto found = devices_.find(context);
  if (ended_ || found == devices_.end() || found->second.state != State::kOpening) return;
  if (ready.result != 0) return AnswerFailed(context, ready.result, ready.message);
  AnswerOpened(context, ready, found->second.proxy->bell().fd());
}

void ClientSession::ReceiveRemoteOpened(std::uint32_t rank, const RemoteOpened& opened) {
  const auto found = devices_.find(opened.context);
  if (ended_ || found == devices_.end() || found->second.state != State::kOpening ||
      !found->second.relayed || RankOf(found->second) != rank)
    return;
  if (opened.result != 0) return AnswerFailed(opened.context, opened.result, opened.message);
  context_.relay->Open({id_, opened.context}, rank, found->second.channel);
  AnswerOpened(opened.context, opened, context_.bell.fd());
}

template <typename Opened>
void ClientSession::AnswerOpened(std::uint32_t context, const Opened& opened, int bell) {
  Device& device = devices_[context];
  device.state = State::kOpen;
  const UniqueFd channel = std::move(device.channel_fd);
  const int fds[] = {channel.get(), bell};
  Answer(DeviceOpened{context, 0, "", device.relayed, opened.window, opened.shared, opened.exchange,
                      opened.process},
         fds);
}

void ClientSession::AnswerFailed(std::uint32_t context, std::int32_t result,
                                 const std::string& why) {
  ++context_.errors.devices_refused;
  const auto found = devices_.find(context);
  const bool relayed = found->second.relayed;
  if (found->second.proxy) found->second.proxy->End({});
  const std::string message = Format("{}: {}", Describe(found->second), why);
  devices_.erase(found);
  Answer(DeviceOpened{context, result, message, relayed, {}, false, "", 0});
}

// --- The end of a device.

void ClientSession::HandleGone(std::uint32_t context, const std::string& reason) {
  const auto found = devices_.find(context);
  if (ended_ || found == devices_.end()) return;
  if (found->second.state == State::kOpening)
    return AnswerFailed(context, cuda::CUDA_ERROR_DEVICE_UNAVAILABLE, reason);
  context_.peer_channels->Forget(context_.relay, {id_, context});
  Lose(context, reason);
}

void ClientSession::ReceiveRemoteLost(std::uint32_t rank, const RemoteLost& lost) {
  const auto found = devices_.find(lost.context);
  if (ended_ || found == devices_.end() || !found->second.relayed || RankOf(found->second) != rank)
    return;
  context_.relay->Close({id_, lost.context});
  switch (found->second.state) {
    case State::kOpening:
      return AnswerFailed(lost.context, cuda::CUDA_ERROR_DEVICE_UNAVAILABLE, lost.reason);
    case State::kClosing:
      return AnswerClosed(lost.context);
    case State::kOpen:
      return Lose(lost.context, lost.reason);
    case State::kLost:
      return;
  }
}

void ClientSession::LoseAgent(std::uint32_t rank, const std::string& reason) {
  std::vector<std::uint32_t> lost;
  for (const auto& [context, device] : devices_)
    if (device.relayed && RankOf(device) == rank) lost.push_back(context);
  for (const std::uint32_t context : lost) ReceiveRemoteLost(rank, {id_, context, reason});
}

void ClientSession::Lose(std::uint32_t context, const std::string& reason) {
  Device& device = devices_[context];
  if (device.state != State::kOpen) return;
  device.state = State::kLost;
  ++context_.errors.devices_lost;
  device.channel->Lose(reason);
  LogError("session {}: {} of {} is lost: {}", id_, Describe(device), program_, reason);
}

Status ClientSession::Close(std::uint32_t context) {
  const auto found = devices_.find(context);
  if (found == devices_.end())
    return Status::Invalid("context {} was closed but is not open", context);
  Device& device = found->second;
  if (device.state == State::kClosing)
    return Status::Invalid("context {} was closed twice", context);
  if (device.state == State::kOpening)
    return Status::Invalid("context {} was closed while it was being opened", context);
  device.channel->Close(false);
  context_.peer_channels->Forget(context_.relay, {id_, context});
  const bool was_lost = device.state == State::kLost;
  device.state = State::kClosing;
  if (was_lost) {
    AnswerClosed(context);
  } else if (device.relayed) {
    context_.relay->Close({id_, context});
    context_.relay->SendControl(RankOf(device), RemoteClose{id_, context});
  } else {
    device.proxy->End([weak = weak_from_this(), context]() CUSPAN_REQUIRES(agent_thread) {
      if (const auto session = weak.lock(); session && !session->ended_)
        session->AnswerClosed(context);
    });
  }
  return Status::Ok();
}

void ClientSession::AnswerClosed(std::uint32_t context) {
  const auto found = devices_.find(context);
  Report(found->second);
  devices_.erase(found);
  Answer(DeviceClosed{context});
}

void ClientSession::Report(const Device& device) {
  if (!device.channel || observer_) return;
  const DeviceDescription& description = Description(device);
  const ChannelStatistics& statistics = device.channel->statistics();
  reports_.Add({id_, visible_[device.number], description.host, description.name, device.relayed,
                ReadUse(statistics), ReadWaits(statistics), statistics.ranks});
}

void ClientSession::Measure(std::vector<DeviceMetrics>& devices) const {
  if (observer_) return;
  for (const auto& [context, device] : devices_) {
    if (!device.channel) continue;
    devices.push_back({visible_[device.number], device.relayed, 1,
                       device.channel->UntakenRequestBytes(),
                       ReadUse(device.channel->statistics())});
  }
}

void ClientSession::End(const std::string& reason) {
  if (ended_) return;
  ended_ = true;
  if (!reason.empty()) {
    ++context_.errors.sessions_terminated;
    LogError("session {} of {} was terminated: {}", id_, program_, reason);
  } else {
    LogInfo("session {} has ended", id_);
  }
  context_.poller.Forget(socket_.fd());
  socket_ = ControlSocket(UniqueFd());
  for (auto& [context, device] : devices_) {
    Report(device);
    context_.peer_channels->Forget(context_.relay, {id_, context});
    if (device.channel) device.channel->Close(!reason.empty());
    if (device.proxy) device.proxy->End({});
    if (device.relayed) {
      context_.relay->Close({id_, context});
      context_.relay->SendControl(RankOf(device), RemoteClose{id_, context});
    }
  }
  devices_.clear();
}

template <typename T>
void ClientSession::Answer(const T& message, std::span<const int> fds) {
  if (ended_) return;
  // If the socket is closed, the client has gone. If it is full, Post keeps the message.
  if (const Status sent = socket_.Post(message, fds); !sent.ok()) {
    return End(sent.code() == StatusCode::kUnavailable ? "" : sent.message());
  }
  if (socket_.kept() != 0) UpdateInterest();
}

}  // namespace cuspan

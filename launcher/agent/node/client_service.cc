#include "launcher/agent/node/client_service.h"

#include <algorithm>

#include "common/log.h"
#include "launcher/agent/node/device_use.h"

namespace cuspan {
Status ClientService::Listen(const std::string& address) {
  CUSPAN_ASSIGN_OR_RETURN(Reception reception, Reception::Listen(address));
  reception_.emplace(std::move(reception));
  return Status::Ok();
}

Status ClientService::Serve() {
  if (!reception_) return Status::Ok();
  return context_.poller.Watch(reception_->fd(),
                               [this]() CUSPAN_REQUIRES(agent_thread) { Admit(); });
}

void ClientService::Admit() {
  // Accepts one per call, for fairness to other events.
  std::optional<Reception::Arrival> arrival = reception_->Next();
  if (!arrival) return;
  Result<std::shared_ptr<ClientSession>> session =
      ClientSession::Start(context_, std::move(*arrival), NewId(), reports_);
  if (!session.ok()) {
    ++context_.errors.connections_refused;
    return LogError("connection refused: {}", session.status().message());
  }
  ++started_;
  sessions_.push_back(std::move(*session));
}

ClientSession* ClientService::Find(std::uint32_t id) {
  for (const std::shared_ptr<ClientSession>& session : sessions_)
    if (session->id() == id && !session->ended()) return session.get();
  return nullptr;
}

// Returns an unused session number from this agent's range.
std::uint32_t ClientService::NewId() {
  std::uint32_t id = 0;
  do {
    last_number_ = last_number_ % (kSessionsOfAgent - 1) + 1;
    id = context_.rank * kSessionsOfAgent + last_number_;
  } while (Find(id) != nullptr);
  return id;
}

void ClientService::Register(ControlTable& control) {
  // Messages about ended sessions are ignored: the sender was notified of their end.
  control.Handle<RemoteOpened>(ControlTable::From::kAny,
                               [this](std::uint32_t rank, const RemoteOpened& opened)
                                   CUSPAN_REQUIRES(agent_thread) {
                                     if (ClientSession* session = Find(opened.session))
                                       session->ReceiveRemoteOpened(rank, opened);
                                   });
  control.Handle<RemoteLost>(ControlTable::From::kAny,
                             [this](std::uint32_t rank, const RemoteLost& lost)
                                 CUSPAN_REQUIRES(agent_thread) {
                                   if (ClientSession* session = Find(lost.session))
                                     session->ReceiveRemoteLost(rank, lost);
                                 });
}

void ClientService::ReceiveJoin(std::uint32_t rank, const RemoteJoin& join) {
  if (join.rank != rank) return LogError("agent {} claims to be agent {}", rank, join.rank);
  if (ClientSession* session = Find(join.session)) session->ReceiveRemoteJoin(join);
}

void ClientService::HandleBroken(RouteKey route, const std::string& reason) {
  if (ClientSession* session = Find(route.session))
    session->End(IsJoinRoute(route)
                     ? Format("on the channel between two devices: {}", reason)
                     : Format("on the channel of device {}: {}", route.context, reason));
}

void ClientService::LoseAgent(std::uint32_t rank, const std::string& reason) {
  for (const std::shared_ptr<ClientSession>& session : sessions_) session->LoseAgent(rank, reason);
}

void ClientService::Measure(AgentMetrics& metrics) {
  ForgetEnded();
  metrics.sessions = static_cast<std::uint32_t>(sessions_.size());
  metrics.sessions_started = started_;
  metrics.errors = context_.errors;
  std::map<std::pair<std::uint32_t, bool>, DeviceMetrics> devices;
  for (const auto& [key, use] : reports_.uses())
    devices[key] = DeviceMetrics{key.first, key.second, 0, 0, use};
  std::vector<DeviceMetrics> live;
  for (const std::shared_ptr<ClientSession>& session : sessions_) session->Measure(live);
  for (const DeviceMetrics& one : live) {
    DeviceMetrics& sum = devices[{one.device, one.relayed}];
    sum.device = one.device;
    sum.relayed = one.relayed;
    sum.sessions += one.sessions;
    sum.queued_bytes += one.queued_bytes;
    AddUse(sum.use, one.use);
  }
  for (auto& [key, sum] : devices) metrics.devices.push_back(std::move(sum));
}

void ClientService::ForgetEnded() {
  std::erase_if(sessions_, [](const std::shared_ptr<ClientSession>& session)
                               CUSPAN_REQUIRES(agent_thread) { return session->ended(); });
}

void ClientService::EndAll() {
  for (const std::shared_ptr<ClientSession>& session : sessions_) session->End("");
  sessions_.clear();
}

}  // namespace cuspan

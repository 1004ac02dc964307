#include "launcher/agent/node/peer_channels.h"

#include <algorithm>

#include "common/log.h"
#include "launcher/agent/base/descriptors.h"

namespace cuspan {
namespace {

// There are few frames: requests for bytes, and ends of copies.
constexpr std::uint32_t kRingSlots = 2048;

std::uint32_t NumberOf(RouteKey route) { return route.context & ~kJoinRoutes; }

void SendProblem(RouteKey route, const PeerChannels::End& end, const Status& problem)
    CUSPAN_REQUIRES(agent_thread) {
  LogError("device {}: no connection to another device: {}", end.device.context, problem.message());
  end.proxy->Join({NumberOf(route), false, problem.message()}, {});
}

}  // namespace

Result<PeerChannels::Joined> PeerChannels::MakeHere(RouteKey route, const End& first,
                                                    const End& second) {
  ChannelLayout layout = layout_;
  layout.ring_slots = kRingSlots;
  CUSPAN_ASSIGN_OR_RETURN(UniqueFd fd, Channel::Create(layout));
  Joined joined;
  for (const End& end : {first, second}) {
    CUSPAN_ASSIGN_OR_RETURN(Bell bell, Duplicate(end.proxy->bell()));
    joined.bells.push_back(std::move(bell));
    joined.devices.push_back(end.device);
  }
  // This agent attaches too, to close the channel when either proxy is gone.
  CUSPAN_ASSIGN_OR_RETURN(UniqueFd own_fd, Duplicate(fd.get()));
  CUSPAN_ASSIGN_OR_RETURN(Bell second_bell, Duplicate(second.proxy->bell()));
  CUSPAN_ASSIGN_OR_RETURN(joined.channel, Channel::Attach(std::move(own_fd), ChannelSide::kClient,
                                                          &bell_, std::move(second_bell)));
  const int to_first[] = {fd.get(), second.proxy->bell().fd()};
  const int to_second[] = {fd.get(), first.proxy->bell().fd()};
  first.proxy->Join({NumberOf(route), false, ""}, to_first);
  second.proxy->Join({NumberOf(route), true, ""}, to_second);
  return joined;
}

Result<PeerChannels::Joined> PeerChannels::MakeRemote(RouteKey route, const End& end) {
  ChannelLayout layout = layout_;
  layout.ring_slots = kRingSlots;
  CUSPAN_ASSIGN_OR_RETURN(UniqueFd fd, Channel::Create(layout));
  Joined joined;
  CUSPAN_ASSIGN_OR_RETURN(Bell bell, Duplicate(end.proxy->bell()));
  joined.devices.push_back(end.device);
  const int fds[] = {fd.get(), bell_.fd()};
  end.proxy->Join({NumberOf(route), true, ""}, fds);
  CUSPAN_ASSIGN_OR_RETURN(
      joined.channel, Channel::Attach(std::move(fd), ChannelSide::kClient, &bell_, std::move(bell),
                                      ChannelFile::kKeep));
  return joined;
}

void PeerChannels::JoinHere(RouteKey route, const End& first, const End& second) {
  Result<Joined> joined = MakeHere(route, first, second);
  if (joined.ok()) {
    joined_[route] = std::move(*joined);
    return;
  }
  for (const End& end : {first, second}) SendProblem(route, end, joined.status());
}

void PeerChannels::JoinRemote(Relay& relay, RouteKey route, const End& end, std::uint32_t rank) {
  Result<Joined> joined = MakeRemote(route, end);
  if (!joined.ok()) {
    SendProblem(route, end, joined.status());
    relay.SendControl(rank, RemoteUnjoin{route.session, NumberOf(route)});
    return;
  }
  joined->rank = rank;
  relay.Open(route, rank, joined->channel);
  joined_[route] = std::move(*joined);
}

void PeerChannels::Refuse(RouteKey route, const End& end) {
  end.proxy->Join({NumberOf(route), false, "the other device is lost"}, {});
}

void PeerChannels::Shut(Relay* relay, RouteKey route, Joined& joined) {
  if (joined.rank) relay->Close(route);
  joined.channel->Close(true);
  for (Bell& bell : joined.bells) bell.Ring();
}

void PeerChannels::Forget(Relay* relay, RouteKey device) {
  for (auto entry = joined_.begin(); entry != joined_.end();) {
    auto& [route, joined] = *entry;
    if (std::find(joined.devices.begin(), joined.devices.end(), device) == joined.devices.end()) {
      ++entry;
      continue;
    }
    Shut(relay, route, joined);
    if (joined.rank) relay->SendControl(*joined.rank, RemoteUnjoin{route.session, NumberOf(route)});
    entry = joined_.erase(entry);
  }
}

void PeerChannels::Close(Relay* relay, RouteKey route) {
  const auto found = joined_.find(route);
  if (found == joined_.end()) return;
  Shut(relay, route, found->second);
  joined_.erase(found);
}

void PeerChannels::LoseAgent(Relay* relay, std::uint32_t rank) {
  for (auto entry = joined_.begin(); entry != joined_.end();) {
    auto& [route, joined] = *entry;
    if (joined.rank == rank) {
      Shut(relay, route, joined);
      entry = joined_.erase(entry);
    } else {
      ++entry;
    }
  }
}

std::optional<RouteKey> PeerChannels::DeviceOf(RouteKey route) const {
  const auto found = joined_.find(route);
  if (found == joined_.end()) return std::nullopt;
  return found->second.devices.front();
}

}  // namespace cuspan

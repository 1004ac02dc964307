#include "launcher/agent/relay/lane_carrier.h"

#include <poll.h>

#include <algorithm>

#include "common/log.h"
#include "launcher/agent/descriptors.h"
#include "launcher/run_key.h"
#include "protocol/channel/reception.h"

namespace cuspan {
namespace {

// For the lanes of this node to come, and each to introduce itself.
constexpr std::chrono::milliseconds kJoinLimit{30'000};
// For a lane to come to what it was told last: what is before it takes far less, unless the lane is
// gone, and then the job ends anyway.
constexpr std::chrono::milliseconds kLaneEndLimit{10'000};

// Only frames go through a lane's channel.
ChannelLayout CommandLayout() {
  ChannelLayout layout;
  layout.ring_slots = 4096;
  layout.staging_slots = 1;
  layout.staging_bytes = 4096;
  return layout;
}

}  // namespace

Result<std::unique_ptr<Carrier>> LaneCarrier::Start(Transport& transport, const Ranks& ranks,
                                                    Bell& bell) {
  // Known to this agent's lanes only, which have it over MPI.
  CUSPAN_ASSIGN_OR_RETURN(RunKey key, RunKey::Random());
  const std::string address = key.Address() + "-lanes";
  CUSPAN_ASSIGN_OR_RETURN(Reception reception, Reception::Listen(address));
  for (std::uint32_t lane = 0; lane < ranks.lanes; ++lane)
    CUSPAN_RETURN_IF_ERROR(
        transport.SendWhole(ranks.LaneRank(transport.rank(), lane),
                            MakeFrame(LaneHello{key.secret, kOpTableHash, address})));

  std::unique_ptr<LaneCarrier> carrier(new LaneCarrier);
  std::vector<std::optional<Lane>> joined(ranks.lanes);
  const auto deadline = std::chrono::steady_clock::now() + kJoinLimit;
  for (std::uint32_t count = 0; count < ranks.lanes;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd waited{reception.fd(), POLLIN, 0};
    if (left.count() <= 0 || ::poll(&waited, 1, static_cast<int>(left.count())) == 0)
      return Status::Unavailable("{} of {} lanes did not connect to this agent within {} s",
                                 ranks.lanes - count, ranks.lanes, kJoinLimit.count() / 1000);
    std::optional<Reception::Arrival> arrival = reception.Next();
    if (!arrival) continue;
    const Result<LaneJoin> join = ParseMessage<LaneJoin>(arrival->first.frame);
    if (!join.ok() || !SameSecret(join->secret, key.secret) || join->lane >= joined.size() ||
        joined[join->lane]) {
      LogWarn("a process that is not a lane of this agent tried to connect as one");
      Reception::Refuse(std::move(*arrival), "not a lane of this agent");
      continue;
    }
    CUSPAN_RETURN_IF_ERROR(Admit(std::move(arrival->socket), bell, joined[join->lane]));
    ++count;
  }
  for (std::optional<Lane>& lane : joined) carrier->lanes_.push_back(std::move(*lane));
  return std::unique_ptr<Carrier>(std::move(carrier));
}

Status LaneCarrier::Admit(ControlSocket socket, Bell& bell, std::optional<Lane>& lane) {
  CUSPAN_ASSIGN_OR_RETURN(UniqueFd fd, Channel::Create(CommandLayout()));
  CUSPAN_ASSIGN_OR_RETURN(Bell lane_bell, Bell::Create());
  const int fds[] = {fd.get(), lane_bell.fd(), bell.fd()};
  CUSPAN_RETURN_IF_ERROR(socket.Send(LaneStart{}, fds));
  CUSPAN_ASSIGN_OR_RETURN(
      std::unique_ptr<Channel> channel,
      Channel::Attach(std::move(fd), ChannelSide::kClient, &bell, std::move(lane_bell)));
  lane.emplace(Lane{std::move(socket), std::move(channel), {}});
  return Status::Ok();
}

template <typename T>
void LaneCarrier::Tell(std::uint32_t number, const T& command) {
  lanes_[number].commands.push_back(MakeFrame(command));
  Flush(lanes_[number]);
}

void LaneCarrier::Flush(Lane& lane) {
  while (!lane.commands.empty()) {
    const Bytes frame(lane.commands.front());
    FrameHeader header;
    std::memcpy(&header, frame.data(), sizeof header);
    if (!lane.channel->TryPost(header, frame.subspan(sizeof header))) return;
    lane.commands.pop_front();
  }
}

Status LaneCarrier::Attach(Channel& channel) {
  if (const auto known = channels_.find(&channel); known != channels_.end()) {
    ++known->second.uses;
    return Status::Ok();
  }
  if (channel.fd() < 0) return Status::Internal("a lane cannot use a channel without its file");
  const std::uint32_t number = ++last_number_;
  const LaneMap map{number, channel.side() == ChannelSide::kClient};
  const int fds[] = {channel.fd()};
  for (std::uint32_t lane = 0; lane < lanes(); ++lane) {
    if (Status sent = lanes_[lane].socket.Send(map, fds); !sent.ok()) {
      for (std::uint32_t told = 0; told < lane; ++told) Tell(told, LaneUnmap{number});
      return sent;
    }
    // It looks at its socket when it reads this.
    Tell(lane, map);
  }
  channels_[&channel] = {number, 1};
  return Status::Ok();
}

void LaneCarrier::Detach(Channel& channel) {
  const auto known = channels_.find(&channel);
  if (known == channels_.end() || --known->second.uses != 0) return;
  for (std::uint32_t lane = 0; lane < lanes(); ++lane) Tell(lane, LaneUnmap{known->second.number});
  channels_.erase(known);
}

std::uint32_t LaneCarrier::NumberOf(Channel* channel) const {
  const auto known = channels_.find(channel);
  return known == channels_.end() ? 0 : known->second.number;
}

void LaneCarrier::Send(std::uint32_t agent, std::uint32_t lane, std::uint32_t tag, SlotBytes bytes,
                       std::uint64_t id) {
  Tell(lane,
       LaneSend{id, NumberOf(bytes.channel), bytes.outgoing, bytes.slot, bytes.bytes, agent, tag});
}

void LaneCarrier::Receive(std::uint32_t agent, std::uint32_t lane, std::uint32_t tag,
                          SlotBytes bytes, std::uint64_t id) {
  Tell(lane, LaneReceive{id, NumberOf(bytes.channel), bytes.outgoing, bytes.slot, bytes.bytes,
                         agent, tag});
}

void LaneCarrier::Expect(std::uint32_t lane, std::uint64_t id) { Tell(lane, LaneExpect{id}); }

void LaneCarrier::Cancel(std::uint32_t lane, std::uint64_t id) { Tell(lane, LaneCancel{id}); }

void LaneCarrier::Finished(std::vector<std::uint64_t>& ids) {
  for (Lane& lane : lanes_) {
    if (!lane.commands.empty()) Flush(lane);
    for (;;) {
      const Result<std::optional<Frame>> frame = lane.channel->Peek();
      if (!frame.ok() || !frame->has_value()) break;
      if (const Result<LaneFinished> finished = ParseMessage<LaneFinished>(**frame); finished.ok())
        ids.push_back(finished->id);
      lane.channel->Pop();
    }
  }
}

bool LaneCarrier::HasWork() {
  return std::any_of(lanes_.begin(), lanes_.end(), [](const Lane& lane) {
    return lane.channel->HasFrame() ||
           (!lane.commands.empty() && lane.channel->HasRoom(lane.commands.front().size()));
  });
}

void LaneCarrier::End() {
  for (std::uint32_t lane = 0; lane < lanes(); ++lane) Tell(lane, LaneEnd{});
  // A lane that is behind has no room for it yet, and may itself have none for what it finished.
  std::vector<std::uint64_t> unused;
  const auto end = std::chrono::steady_clock::now() + kLaneEndLimit;
  for (Lane& lane : lanes_) {
    while (!lane.commands.empty() && !lane.channel->closed()) {
      if (std::chrono::steady_clock::now() >= end)
        return LogError("a lane of this agent does not read its messages");
      lane.channel->WantRoom();
      lane.channel->own_bell().Wait([this] { return HasWork(); }, std::chrono::milliseconds(1),
                                    WaitStages::ForThisMachine());
      Finished(unused);
      unused.clear();
    }
  }
}

Result<std::unique_ptr<Carrier>> MakeCarrier(Transport& transport, const Ranks& ranks, Bell& bell) {
  if (ranks.lanes != 0) return LaneCarrier::Start(transport, ranks, bell);
  return std::unique_ptr<Carrier>(std::make_unique<OwnCarrier>(transport));
}

}  // namespace cuspan

#include "launcher/agent/relay/lane_carrier.h"

#include <algorithm>

#include "common/log.h"
#include "launcher/agent/base/descriptors.h"

namespace cuspan {
namespace {

// Time limit for a lane to read its last commands. Earlier commands take far less, unless the lane
// is dead; the job then ends anyway.
constexpr std::chrono::milliseconds kLaneEndLimit{10'000};

// A lane's channel carries frames only, no bulk.
ChannelLayout CommandLayout() {
  ChannelLayout layout;
  layout.ring_slots = 4096;
  layout.staging_slots = 1;
  layout.staging_bytes = 4096;
  return layout;
}

}  // namespace

Result<std::unique_ptr<Carrier>> LaneCarrier::Start(std::vector<ControlSocket> lanes, Bell& bell) {
  std::unique_ptr<LaneCarrier> carrier(new LaneCarrier);
  for (ControlSocket& socket : lanes) {
    CUSPAN_ASSIGN_OR_RETURN(Lane lane, Admit(std::move(socket), bell));
    carrier->lanes_.push_back(std::move(lane));
  }
  return std::unique_ptr<Carrier>(std::move(carrier));
}

LaneCarrier::~LaneCarrier() {
  // Ends lanes without a LaneEnd so far.
  for (const Lane& lane : lanes_) lane.channel->Close(false);
}

Result<LaneCarrier::Lane> LaneCarrier::Admit(ControlSocket socket, Bell& bell) {
  CUSPAN_ASSIGN_OR_RETURN(UniqueFd fd, Channel::Create(CommandLayout()));
  CUSPAN_ASSIGN_OR_RETURN(Bell lane_bell, Bell::Create());
  CUSPAN_ASSIGN_OR_RETURN(const UniqueFd of_lane, Duplicate(fd.get()));
  CUSPAN_ASSIGN_OR_RETURN(Bell lane_end, Duplicate(lane_bell));
  CUSPAN_ASSIGN_OR_RETURN(
      std::unique_ptr<Channel> channel,
      Channel::Attach(std::move(fd), ChannelSide::kClient, &bell, std::move(lane_end)));
  // Sent last: once started, a lane ends when its channel is closed.
  const int fds[] = {of_lane.get(), lane_bell.fd(), bell.fd()};
  CUSPAN_RETURN_IF_ERROR(socket.Send(LaneStart{}, fds));
  return Lane{std::move(socket), std::move(channel), {}};
}

template <typename T>
void LaneCarrier::SendCommand(std::uint32_t number, const T& command) {
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
      for (std::uint32_t told = 0; told < lane; ++told) SendCommand(told, LaneUnmap{number});
      return sent;
    }
    // The lane reads its socket when it gets this frame.
    SendCommand(lane, map);
  }
  channels_[&channel] = {number, 1};
  return Status::Ok();
}

void LaneCarrier::Detach(Channel& channel) {
  const auto known = channels_.find(&channel);
  if (known == channels_.end() || --known->second.uses != 0) return;
  for (std::uint32_t lane = 0; lane < lanes(); ++lane)
    SendCommand(lane, LaneUnmap{known->second.number});
  channels_.erase(known);
}

std::uint32_t LaneCarrier::NumberOf(Channel* channel) const {
  const auto known = channels_.find(channel);
  return known == channels_.end() ? 0 : known->second.number;
}

void LaneCarrier::Send(std::uint32_t agent, std::uint32_t lane, std::uint32_t tag, SlotBytes bytes,
                       std::uint64_t id) {
  SendCommand(lane, LaneSend{id, NumberOf(bytes.channel), bytes.outgoing, bytes.slot, bytes.bytes,
                             agent, tag});
}

void LaneCarrier::Receive(std::uint32_t agent, std::uint32_t lane, std::uint32_t tag,
                          SlotBytes bytes, std::uint64_t id) {
  SendCommand(lane, LaneReceive{id, NumberOf(bytes.channel), bytes.outgoing, bytes.slot,
                                bytes.bytes, agent, tag});
}

void LaneCarrier::Expect(std::uint32_t lane, std::uint64_t id) {
  SendCommand(lane, LaneExpect{id});
}

void LaneCarrier::Cancel(std::uint32_t lane, std::uint64_t id) {
  SendCommand(lane, LaneCancel{id});
}

void LaneCarrier::ReceiveMessages(Lane& lane) {
  for (;;) {
    const Result<std::optional<Frame>> frame = lane.channel->Peek();
    if (!frame.ok() || !frame->has_value()) return;
    if (const Result<LaneFinished> finished = ParseMessage<LaneFinished>(**frame); finished.ok())
      finished_.push_back(finished->id);
    else if (Result<LaneLost> lost = ParseMessage<LaneLost>(**frame); lost.ok())
      lost_.push_back({lost->agent, std::move(lost->cause)});
    lane.channel->Pop();
  }
}

void LaneCarrier::Finished(std::vector<std::uint64_t>& ids) {
  for (Lane& lane : lanes_) {
    if (!lane.commands.empty()) Flush(lane);
    ReceiveMessages(lane);
  }
  ids.insert(ids.end(), finished_.begin(), finished_.end());
  finished_.clear();
}

std::optional<Transport::LostPeer> LaneCarrier::ConsumeLost() {
  if (lost_.empty()) return std::nullopt;
  Transport::LostPeer lost = std::move(lost_.front());
  lost_.pop_front();
  return lost;
}

void LaneCarrier::GiveUp(std::uint32_t agent) {
  for (std::uint32_t lane = 0; lane < lanes(); ++lane) SendCommand(lane, LaneGiveUp{agent});
}

bool LaneCarrier::HasWork() {
  return std::any_of(lanes_.begin(), lanes_.end(), [](const Lane& lane) {
    if (lane.channel->HasFrame()) return true;
    if (lane.commands.empty()) return false;
    lane.channel->WantRoom();
    return lane.channel->HasRoom(lane.commands.front().size());
  });
}

void LaneCarrier::End() {
  for (std::uint32_t lane = 0; lane < lanes(); ++lane) SendCommand(lane, LaneEnd{});
  // A lane with a full command ring may itself be blocked by a full ring of LaneFinished: drains
  // both.
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

Result<std::unique_ptr<Carrier>> MakeCarrier(Transport& transport, std::vector<ControlSocket> lanes,
                                             Bell& bell) {
  if (!lanes.empty()) return LaneCarrier::Start(std::move(lanes), bell);
  return std::unique_ptr<Carrier>(std::make_unique<OwnCarrier>(transport));
}

}  // namespace cuspan

#include "launcher/agent/relay/lane.h"

#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <vector>

#include "launcher/agent/base/bell_ringer.h"
#include "launcher/agent/relay/naps.h"
#include "protocol/channel/channel.h"
#include "protocol/channel/socket.h"

namespace cuspan {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kAgentLimit{60'000};  // Time for the agent to start this lane.
constexpr milliseconds kMapLimit{10'000};
// Longest sleep with nothing in flight: only the agent can bring work, and it rings the bell.
constexpr milliseconds kLaneIdleSleep{1'000};

class Lane {
 public:
  Lane(Transport& transport, std::vector<std::uint32_t> peers, ControlSocket socket,
       std::unique_ptr<Bell> bell, std::unique_ptr<Channel> commands, Bell unused,
       std::unique_ptr<BellRinger> ringer)
      : transport_(transport),
        peers_(std::move(peers)),
        socket_(std::move(socket)),
        bell_(std::move(bell)),
        unused_(std::move(unused)),
        commands_(std::move(commands)),
        ringer_(std::move(ringer)) {}

  Status Serve();

 private:
  Result<bool> ReceiveCommands();
  Status Execute(const Frame& frame);
  Status Map(std::uint32_t number);
  // Memory named by a LaneSend or LaneReceive.
  template <typename Command>
  Result<std::span<std::byte>> Find(const Command& command) const;
  bool ReportFinished();
  bool ReportLost();
  void Rest(Clock::time_point moved_last, microseconds& backoff);

  Transport& transport_;
  const std::vector<std::uint32_t> peers_;  // Ranks of this lane in other agents, by agent.
  ControlSocket socket_;
  const std::unique_ptr<Bell> bell_;  // Its address must not change: channels point to it.
  Bell unused_;                       // Mapped channels need a peer bell; never rung.
  std::unique_ptr<Channel> commands_;
  const std::unique_ptr<BellRinger> ringer_;  // Null if the transport has no wake descriptor.
  const WaitStages stages_ = WaitStages::ForThisMachine();
  std::map<std::uint32_t, std::unique_ptr<Channel>> channels_;  // Key: channel number.
  std::uint64_t under_way_ = 0;                                 // Sends, and expected receives.
  std::vector<std::uint64_t> finished_;
  bool gave_up_ = false;  // One agent or several were given up.
  bool ended_ = false;
};

Status Lane::Serve() {
  Clock::time_point moved_last = Clock::now();
  microseconds backoff = kFirstBackoff;
  while (!ended_) {
    CUSPAN_ASSIGN_OR_RETURN(bool moved, ReceiveCommands());
    // All three run in every pass, even if an earlier one has moved something.
    moved = ReportFinished() || moved;
    moved = ReportLost() || moved;
    // Closed by an agent ending without a LaneEnd.
    if (!moved && commands_->closed()) return Status::Ok();
    if (moved) {
      moved_last = Clock::now();
      backoff = kFirstBackoff;
    } else if (!ended_) {
      Rest(moved_last, backoff);
    }
  }
  return Status::Ok();
}

void Lane::Rest(Clock::time_point moved_last, microseconds& backoff) {
  const nanoseconds idle = Clock::now() - moved_last;
  if (idle < stages_.spin) return;
  if (idle < YieldLimit(stages_, under_way_ != 0)) {
    ::sched_yield();
    return;
  }
  const auto has_work = [this] { return commands_->HasFrame() || commands_->closed(); };
  const WaitStages sleep_at_once{nanoseconds(0), nanoseconds(0)};
  const bool wakes = ringer_ != nullptr;
  if (wakes && transport_.Arm() == Transport::Rest::kUntilWoken) {
    ringer_->Watch();
    bell_->Wait([&] { return has_work() || ringer_->fired(); }, kLaneIdleSleep, sleep_at_once);
    return;
  }
  // A transport that cannot be armed now has pending work: it needs polling.
  const bool naps = wakes || under_way_ != 0 || idle < kSettles;
  bell_->Wait(has_work, naps ? nanoseconds(backoff) : nanoseconds(kLaneIdleSleep), sleep_at_once);
  backoff = std::min(2 * backoff, kLongestBackoff);
}

Result<bool> Lane::ReceiveCommands() {
  bool taken = false;
  for (;;) {
    CUSPAN_ASSIGN_OR_RETURN(const std::optional<Frame> frame, commands_->Peek());
    if (!frame.has_value()) return taken;
    CUSPAN_RETURN_IF_ERROR(Execute(*frame));
    commands_->Pop();
    taken = true;
    if (ended_) return true;
  }
}

Status Lane::Execute(const Frame& frame) {
  switch (frame.op()) {
    case Op::kLaneMap: {
      const Result<LaneMap> map = ParseMessage<LaneMap>(frame);
      return map.ok() ? Map(map->number) : map.status();
    }
    case Op::kLaneUnmap: {
      const Result<LaneUnmap> unmap = ParseMessage<LaneUnmap>(frame);
      // Transfers to an agent given up may use the memory until the transport ends.
      if (unmap.ok() && !gave_up_) channels_.erase(unmap->number);
      return unmap.status();
    }
    case Op::kLaneSend: {
      CUSPAN_ASSIGN_OR_RETURN(const LaneSend send, ParseMessage<LaneSend>(frame));
      CUSPAN_ASSIGN_OR_RETURN(const std::span<std::byte> bytes, Find(send));
      ++under_way_;
      transport_.StartBulkSend(peers_[send.agent], send.tag, bytes, send.id);
      return Status::Ok();
    }
    case Op::kLaneReceive: {
      CUSPAN_ASSIGN_OR_RETURN(const LaneReceive receive, ParseMessage<LaneReceive>(frame));
      CUSPAN_ASSIGN_OR_RETURN(const std::span<std::byte> bytes, Find(receive));
      transport_.StartBulkReceive(peers_[receive.agent], receive.tag, bytes, receive.id);
      return Status::Ok();
    }
    case Op::kLaneExpect: {
      CUSPAN_ASSIGN_OR_RETURN(const LaneExpect expect, ParseMessage<LaneExpect>(frame));
      if (transport_.ExpectBulk(expect.id)) ++under_way_;
      return Status::Ok();
    }
    case Op::kLaneCancel: {
      CUSPAN_ASSIGN_OR_RETURN(const LaneCancel cancel, ParseMessage<LaneCancel>(frame));
      if (transport_.CancelBulkReceive(cancel.id)) --under_way_;
      return Status::Ok();
    }
    case Op::kLaneGiveUp: {
      CUSPAN_ASSIGN_OR_RETURN(const LaneGiveUp lost, ParseMessage<LaneGiveUp>(frame));
      if (lost.agent >= peers_.size())
        return Status::Invalid("agent {} cannot be given up: there is no such agent", lost.agent);
      gave_up_ = true;
      transport_.GiveUp(peers_[lost.agent]);
      return Status::Ok();
    }
    case Op::kLaneEnd:
      ended_ = true;
      return Status::Ok();
    default:
      return Status::Invalid("op {} ({}) is not a message from an agent to a lane", frame.header.op,
                             OpName(frame.op()));
  }
}

Status Lane::Map(std::uint32_t number) {
  // The agent sends the descriptor over the socket before it posts this frame.
  CUSPAN_ASSIGN_OR_RETURN(LaneMap map, socket_.Expect<LaneMap>(kMapLimit));
  if (map.number != number)
    return Status::Invalid("channel {} arrived as number {}", number, map.number);
  CUSPAN_ASSIGN_OR_RETURN(Bell peer, Bell::Open(UniqueFd(::dup(unused_.fd()))));
  CUSPAN_ASSIGN_OR_RETURN(
      channels_[number],
      Channel::Attach(socket_.ExtractFd(), map.client ? ChannelSide::kClient : ChannelSide::kProxy,
                      bell_.get(), std::move(peer)));
  return Status::Ok();
}

template <typename Command>
Result<std::span<std::byte>> Lane::Find(const Command& command) const {
  const auto channel = channels_.find(command.number);
  if (channel == channels_.end() || command.agent >= peers_.size() ||
      command.slot >= channel->second->layout().staging_slots ||
      command.bytes > channel->second->layout().staging_bytes)
    return Status::Invalid(
        "{} bytes in slot {} of channel {} for agent {}: no such slot, channel or agent",
        command.bytes, command.slot, command.number, command.agent);
  std::byte* const memory = command.outgoing ? channel->second->OutgoingSlot(command.slot)
                                             : channel->second->IncomingSlot(command.slot);
  return std::span(memory, command.bytes);
}

bool Lane::ReportLost() {
  const std::optional<Transport::LostPeer> lost = transport_.ConsumeLost();
  if (!lost) return false;
  const auto agent = std::find(peers_.begin(), peers_.end(), lost->rank) - peers_.begin();
  commands_->Post(LaneLost{static_cast<std::uint32_t>(agent), lost->cause});
  return true;
}

bool Lane::ReportFinished() {
  finished_.clear();
  transport_.FinishedBulk(finished_);
  for (const std::uint64_t id : finished_) commands_->Post(LaneFinished{id});
  under_way_ -= finished_.size();
  return !finished_.empty();
}

}  // namespace

Status ServeLane(Transport& transport, std::vector<std::uint32_t> peers, ControlSocket socket,
                 const std::function<void()>& linger) {
  if (Status start = socket.Expect<LaneStart>(kAgentLimit).status(); !start.ok()) {
    // If the agent ended before it started, the socket is hung up. Otherwise the agent is late.
    pollfd waited{socket.fd(), POLLRDHUP, 0};
    if (::poll(&waited, 1, 0) <= 0) return start;
    linger();
    return Status::Ok();
  }
  UniqueFd channel_fd = socket.ExtractFd();
  CUSPAN_ASSIGN_OR_RETURN(Bell bell, Bell::Open(socket.ExtractFd()));
  CUSPAN_ASSIGN_OR_RETURN(Bell agent_bell, Bell::Open(socket.ExtractFd()));
  CUSPAN_ASSIGN_OR_RETURN(Bell unused, Bell::Create());
  auto own = std::make_unique<Bell>(std::move(bell));
  CUSPAN_ASSIGN_OR_RETURN(std::unique_ptr<Channel> commands,
                          Channel::Attach(std::move(channel_fd), ChannelSide::kProxy, own.get(),
                                          std::move(agent_bell)));
  std::unique_ptr<BellRinger> ringer;
  if (transport.wake_fd() >= 0) {
    CUSPAN_ASSIGN_OR_RETURN(ringer, BellRinger::Start(*own, transport.wake_fd()));
  }
  Lane lane(transport, std::move(peers), std::move(socket), std::move(own), std::move(commands),
            std::move(unused), std::move(ringer));
  Status served = lane.Serve();
  if (served.ok()) linger();
  return served;
}

}  // namespace cuspan

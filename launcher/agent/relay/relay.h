// The relay of an agent: frames and bulk between the channels on its node and
// the agents of other nodes.
//
// Frames of one route keep their order. A Chunk is not passed on as a frame: a
// frame announces it, and its bytes go from the staging slot in which they lie
// straight into a slot at the other end, into which that end has posted a receive
// before (chunk_inbox.h); frames behind it do not wait. Chunks of one route
// arrive in their order, and never before a frame that was posted ahead of them.
//
// Bounds: each end grants the other so many bytes of frames and so many posted
// receives a route, and grants more as its channel takes them. So a channel that nobody
// reads holds up nothing but itself, and memory is bounded. Of bulk no more is under way
// than the link passes in a few milliseconds, and where it is slow the processes on
// this node are asked for smaller and fewer chunks (link_rate.h).
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "launcher/agent/base/roles.h"
#include "launcher/agent/relay/batch.h"
#include "launcher/agent/relay/carrier.h"
#include "launcher/agent/relay/chunk_inbox.h"
#include "launcher/agent/relay/chunk_sends.h"
#include "launcher/agent/relay/transport.h"

namespace cuspan {

// One thread.
class Relay {
 public:
  struct Handlers {
    // A control frame of another agent that is not the relay's own.
    std::function<void(std::uint32_t rank, const Frame& frame)> control;
    // The process at the other end of a route's channel, or the other agent, broke the protocol.
    // The route is closed.
    std::function<void(RouteKey route, const std::string& reason)> broken;
  };
  // `carrier` moves the bulk; both outlive the relay. `sends_in_flight` bounds the bulk sends to
  // one agent at a time on each lane.
  Relay(Transport& transport, Carrier& carrier, std::uint32_t sends_in_flight, Handlers handlers);

  // Control messages go ahead of frames that are not yet on their way. One of more than
  // kMaxFrameBytes is not sent, which is logged: it would never fit a message between agents.
  template <typename T>
  void SendControl(std::uint32_t rank, const T& message) CUSPAN_REQUIRES(agent_thread) {
    SendControlFrame(rank, T::kOp, MakeFrame(message));
  }
  // Whether more control messages wait for some agent than should: what makes new ones, and can
  // wait, waits.
  bool congested() const CUSPAN_REQUIRES(agent_thread);

  // How many messages have come from that agent.
  std::uint64_t heard(std::uint32_t rank) const CUSPAN_REQUIRES(agent_thread) {
    return peers_[rank].heard;
  }
  // That agent can not be reached any more: nothing is sent to it, and what comes is not read. Its
  // routes are to be closed.
  void GiveUp(std::uint32_t rank) CUSPAN_REQUIRES(agent_thread);
  bool gave_up(std::uint32_t rank) const CUSPAN_REQUIRES(agent_thread) {
    return peers_[rank].given_up;
  }

  // Joins a channel of this node, which has kept its descriptor if the carrier has lanes, to the
  // route's other end. Both ends open it before either sends: the far one first.
  void Open(RouteKey route, std::uint32_t rank, std::shared_ptr<Channel> channel)
      CUSPAN_REQUIRES(agent_thread);
  // Forgets the route; the channel is kept as long as bulk uses its memory, which the other end
  // knows to have ended when it has closed the route as well.
  void Close(RouteKey route) CUSPAN_REQUIRES(agent_thread);
  // Passes on what the channel holds now, as far as the other end has room.
  void Flush(RouteKey route) CUSPAN_REQUIRES(agent_thread);

  // One pass over everything; true when something moved, signs of life aside.
  bool Progress() CUSPAN_REQUIRES(agent_thread);
  // True when a pass would find something in a channel. Cheap, for Bell::Wait.
  bool HasWork() CUSPAN_REQUIRES(agent_thread);
  bool has_routes() const CUSPAN_REQUIRES(agent_thread) { return !routes_.empty(); }
  // As of the transport: Arm is false while something is to be sent, too.
  int wake_fd() const { return transport_.wake_fd(); }
  bool Arm() CUSPAN_REQUIRES(agent_thread);
  // Something was passed on that has an answer, which was not yet, or bulk is on its way: more will
  // come soon.
  bool awaiting() const CUSPAN_REQUIRES(agent_thread);
  // No bulk, no receive for a closed route, and no unsent message, but for agents given up.
  bool quiet() const CUSPAN_REQUIRES(agent_thread);

 private:
  void SendControlFrame(std::uint32_t rank, Op op, std::vector<std::byte> frame)
      CUSPAN_REQUIRES(agent_thread);
  struct Route {
    RouteKey key;
    std::uint32_t rank = 0;
    std::shared_ptr<Channel> channel;
    std::shared_ptr<Attachment> memory;
    // From the channel to the other agent.
    std::uint64_t frame_credit = 0;          // Bytes that may still be sent.
    std::uint32_t send_tag = 0;              // Of the other end's inbox; 0: not known yet.
    std::uint64_t far_slot_bytes = 0;        // Of each receive there.
    std::vector<std::uint32_t> lane_credit;  // Receives that it has posted, by lane.
    std::deque<std::pair<FrameHeader, Chunk>> waiting_chunks;  // For credit.
    std::uint64_t busy_slots =
        0;  // Incoming slots whose chunks are waiting or being sent: a bit each.
    // An incoming slot that was sent and is given back when the other end's is free again, where
    // there is but one (see ChannelLayout).
    std::optional<std::uint32_t> held_slot;
    std::uint64_t needed_credit = 0;  // Of the frame that waits for it.
    // What passed, either way, and has an answer that did not: calls less replies, records of
    // events less what was told of them, and a copy from the device of which no chunk came yet. A
    // program may wait for any of these.
    std::int64_t open_calls = 0;
    std::int64_t open_records = 0;
    bool awaits_chunk = false;
    Pace pace;  // As the channel was told.
    // From the other agent to the channel.
    std::deque<std::vector<std::byte>> backlog;  // Frames for which the ring had no room.
    std::uint64_t backlog_bytes = 0;
    std::uint64_t consumed = 0;  // Bytes that were posted and not yet granted again.
    ChunkInbox* inbox = nullptr;
    bool granted = false;  // The other end knows of this one.
    std::string failure;   // Why it shall be closed.
  };
  struct Peer {
    explicit Peer(std::size_t message_bytes) : batch(message_bytes) {}
    std::deque<std::vector<std::byte>> control;
    BatchWriter batch;
    // Announcements of chunks may wait in the batch for others, as long as none of theirs is being
    // sent: each message takes time from bulk.
    bool urgent = false;  // There is something else in it.
    // An inline chunk waits in it for the answer that follows it.
    std::optional<std::chrono::steady_clock::time_point> held_until;
    std::uint64_t announced = 0;
    std::uint64_t announced_sent = 0;  // Of those, on their way.
    std::unique_ptr<ChunkSends> sends;
    std::size_t routes = 0;
    bool garbled = false;  // A message that no agent writes came from it.
    bool given_up = false;
    std::uint64_t heard = 0;  // Messages.
  };

  bool ReceiveMessages() CUSPAN_REQUIRES(agent_thread);
  void TakeItem(std::uint32_t rank, const BatchReader::Item& item) CUSPAN_REQUIRES(agent_thread);
  void TakeFrame(Route& route, const Frame& frame) CUSPAN_REQUIRES(agent_thread);
  static void CountAnswers(Route& route, const Frame& frame);
  void TakeCredit(std::uint32_t rank, const Frame& frame) CUSPAN_REQUIRES(agent_thread);
  void TakeRemoteChunk(std::uint32_t rank, const Frame& frame) CUSPAN_REQUIRES(agent_thread);
  void TakeRemoteClosed(std::uint32_t rank, const Frame& frame) CUSPAN_REQUIRES(agent_thread);
  bool FinishBulk() CUSPAN_REQUIRES(agent_thread);
  static void FinishSend(Route& route, std::uint32_t slot);
  bool Deliver(Route& route) CUSPAN_REQUIRES(agent_thread);
  bool DeliverChunks(Route& route) CUSPAN_REQUIRES(agent_thread);
  bool PostToChannel(Route& route, const FrameHeader& header, Bytes payload)
      CUSPAN_REQUIRES(agent_thread);
  void Grant(Route& route) CUSPAN_REQUIRES(agent_thread);
  bool Collect(Route& route) CUSPAN_REQUIRES(agent_thread);
  bool CollectFrame(Route& route, const Frame& frame) CUSPAN_REQUIRES(agent_thread);
  bool CollectChunk(Route& route, const Frame& frame) CUSPAN_REQUIRES(agent_thread);
  bool AnnounceChunks(Route& route) CUSPAN_REQUIRES(agent_thread);
  void SetPace(Route& route) CUSPAN_REQUIRES(agent_thread);
  bool Append(std::uint32_t rank, RouteKey route, const FrameHeader& header, Bytes payload)
      CUSPAN_REQUIRES(agent_thread);
  bool MayHold(const Peer& peer) const CUSPAN_REQUIRES(agent_thread);
  bool SendBatch(std::uint32_t rank) CUSPAN_REQUIRES(agent_thread);
  void CloseBroken() CUSPAN_REQUIRES(agent_thread);
  std::uint32_t FreeTag(std::uint32_t rank) CUSPAN_REQUIRES(agent_thread);
  void ForgetOverInboxes() CUSPAN_REQUIRES(agent_thread);
  Route* Find(RouteKey key) CUSPAN_REQUIRES(agent_thread);

  Transport& transport_;
  Carrier& carrier_;
  const std::uint32_t sends_in_flight_;
  const Handlers handlers_;
  std::map<RouteKey, Route> routes_ CUSPAN_GUARDED_BY(agent_thread);
  std::vector<Peer> peers_ CUSPAN_GUARDED_BY(agent_thread);
  // What is posted for the chunks of another agent, by its rank and tag: of a route, or left over
  // from one.
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::unique_ptr<ChunkInbox>> inboxes_
      CUSPAN_GUARDED_BY(agent_thread);
  std::uint32_t last_tag_ CUSPAN_GUARDED_BY(agent_thread) = 0;
  BulkTable bulk_ CUSPAN_GUARDED_BY(agent_thread);
  std::vector<std::uint64_t> finished_ CUSPAN_GUARDED_BY(agent_thread);
};

}  // namespace cuspan

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
  void SendControl(std::uint32_t rank, const T& message) {
    SendControlFrame(rank, T::kOp, MakeFrame(message));
  }
  // Whether more control messages wait for some agent than should: what makes new ones, and can
  // wait, waits.
  bool congested() const;

  // How many messages have come from that agent.
  std::uint64_t heard(std::uint32_t rank) const { return peers_[rank].heard; }
  // That agent can not be reached any more: nothing is sent to it, and what comes is not read. Its
  // routes are to be closed.
  void GiveUp(std::uint32_t rank);
  bool gave_up(std::uint32_t rank) const { return peers_[rank].given_up; }

  // Joins a channel of this node, which has kept its descriptor if the carrier has lanes, to the
  // route's other end. Both ends open it before either sends: the far one first.
  void Open(RouteKey route, std::uint32_t rank, std::shared_ptr<Channel> channel);
  // Forgets the route; the channel is kept as long as bulk uses its memory, which the other end
  // knows to have ended when it has closed the route as well.
  void Close(RouteKey route);
  // Passes on what the channel holds now, as far as the other end has room.
  void Flush(RouteKey route);

  // One pass over everything; true when something moved, signs of life aside.
  bool Progress();
  // True when a pass would find something in a channel. Cheap, for Bell::Wait.
  bool HasWork();
  bool has_routes() const { return !routes_.empty(); }
  // As of the transport: Arm is false while something is to be sent, too.
  int wake_fd() const { return transport_.wake_fd(); }
  bool Arm();
  // Something was passed on that has an answer, which was not yet, or bulk is on its way: more will
  // come soon.
  bool awaiting() const;
  // No bulk, no receive for a closed route, and no unsent message, but for agents given up.
  bool quiet() const;

 private:
  void SendControlFrame(std::uint32_t rank, Op op, std::vector<std::byte> frame);
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

  bool ReceiveMessages();
  void TakeItem(std::uint32_t rank, const BatchReader::Item& item);
  void TakeFrame(Route& route, const Frame& frame);
  static void CountAnswers(Route& route, const Frame& frame);
  void TakeCredit(std::uint32_t rank, const Frame& frame);
  void TakeRemoteChunk(std::uint32_t rank, const Frame& frame);
  void TakeRemoteClosed(std::uint32_t rank, const Frame& frame);
  bool FinishBulk();
  static void FinishSend(Route& route, std::uint32_t slot);
  bool Deliver(Route& route);
  bool DeliverChunks(Route& route);
  bool PostToChannel(Route& route, const FrameHeader& header, Bytes payload);
  void Grant(Route& route);
  bool Collect(Route& route);
  bool CollectFrame(Route& route, const Frame& frame);
  bool CollectChunk(Route& route, const Frame& frame);
  bool AnnounceChunks(Route& route);
  void SetPace(Route& route);
  bool Append(std::uint32_t rank, RouteKey route, const FrameHeader& header, Bytes payload);
  bool MayHold(const Peer& peer) const;
  bool SendBatch(std::uint32_t rank);
  void CloseBroken();
  std::uint32_t FreeTag(std::uint32_t rank);
  void ForgetOverInboxes();
  Route* Find(RouteKey key);

  Transport& transport_;
  Carrier& carrier_;
  const std::uint32_t sends_in_flight_;
  const Handlers handlers_;
  std::map<RouteKey, Route> routes_;
  std::vector<Peer> peers_;
  // What is posted for the chunks of another agent, by its rank and tag: of a route, or left over
  // from one.
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::unique_ptr<ChunkInbox>> inboxes_;
  std::uint32_t last_tag_ = 0;
  BulkTable bulk_;
  std::vector<std::uint64_t> finished_;
};

}  // namespace cuspan

// The relay of an agent: passes frames and bulk between the channels on its node and the agents of
// other nodes.
//
// Frames of one route keep their order. A Chunk is not passed on as a frame: another frame
// announces it, and its bytes go directly from their staging slot into a slot at the other end. A
// receive was posted there in advance (chunk_inbox.h). Later frames do not wait for these bytes.
// Chunks of one route arrive in order, and never before a frame posted ahead of them.
//
// Bounds: each end grants the other a number of frame bytes and of posted receives per route, and
// renews the grant as its channel consumes them. A channel without a reader therefore blocks only
// itself, and memory is bounded. Bulk in flight is limited to the amount passed by the link in a
// few milliseconds. On slow links, processes on this node are asked for smaller and fewer chunks
// (link_rate.h).
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
#include "launcher/agent/relay/outbox.h"
#include "launcher/agent/relay/transport.h"

namespace cuspan {

// Threads: one.
class Relay {
 public:
  struct Handlers {
    // Called for control frames not handled by the relay itself.
    std::function<void(std::uint32_t rank, const Frame& frame)> control;
    // Called after a route was closed because the local process or the other agent broke the
    // protocol.
    std::function<void(RouteKey route, const std::string& reason)> broken;
  };
  // `carrier` moves the bulk; both outlive the relay. `sends_in_flight`: maximum number of bulk
  // sends in flight to one agent on each lane.
  Relay(Transport& transport, Carrier& carrier, std::uint32_t sends_in_flight, Handlers handlers);

  // Queues a control message ahead of unsent frames. Messages over kMaxFrameBytes fit no message
  // between agents: they are logged and dropped, and so are all to an agent given up.
  template <typename T>
  void SendControl(std::uint32_t rank, const T& message) CUSPAN_REQUIRES(agent_thread) {
    peers_[rank].outbox.AddControl(T::kOp, MakeFrame(message));
  }
  // True if too many control messages are queued for some agent. Callers then delay new ones if
  // possible.
  bool congested() const CUSPAN_REQUIRES(agent_thread);

  // Number of messages received from an agent.
  std::uint64_t message_count(std::uint32_t rank) const CUSPAN_REQUIRES(agent_thread) {
    return peers_[rank].message_count;
  }
  // Marks an agent as unreachable: sends to it stop, and its messages are ignored. The caller must
  // close its routes.
  void GiveUp(std::uint32_t rank) CUSPAN_REQUIRES(agent_thread);
  bool gave_up(std::uint32_t rank) const CUSPAN_REQUIRES(agent_thread) {
    return peers_[rank].given_up;
  }

  // Connects a channel of this node with the route's other end. If the carrier has lanes, the
  // channel must have kept its descriptor. Both ends open the route before either sends, the remote
  // end first.
  void Open(RouteKey route, std::uint32_t rank, std::shared_ptr<Channel> channel)
      CUSPAN_REQUIRES(agent_thread);
  // Removes the route. The channel is kept until bulk has stopped using its memory, known only
  // after the other end has closed the route too.
  void Close(RouteKey route) CUSPAN_REQUIRES(agent_thread);
  // Passes on the frames now in the channel, as far as the other end has room.
  void Flush(RouteKey route) CUSPAN_REQUIRES(agent_thread);

  // Makes one pass over everything. True if anything but keep-alives moved.
  bool Progress() CUSPAN_REQUIRES(agent_thread);
  // True if a pass would find work in a channel; a cheap check for Bell::Wait.
  bool HasWork() CUSPAN_REQUIRES(agent_thread);
  // Both are called after a pause, before the next pass. PassOnFirst sends frames of channels, and
  // wakes their receivers beforehand: polling the transport first takes long after a pause. True if
  // anything moved. WakeNextProxy, for a message, wakes the receiver of the last frame: mostly both
  // have the same. It does not do so for ever: an idle run has keep-alives only.
  bool PassOnFirst() CUSPAN_REQUIRES(agent_thread);
  void WakeNextProxy() CUSPAN_REQUIRES(agent_thread);
  bool has_routes() const CUSPAN_REQUIRES(agent_thread) { return !routes_.empty(); }
  // See Transport. While messages are unsent, Arm returns kNaps.
  Transport::Rest Arm() CUSPAN_REQUIRES(agent_thread);
  std::chrono::milliseconds longest_rest() const { return transport_.longest_rest(); }
  // True if more work is expected soon: an answer is outstanding, or bulk is in flight.
  bool awaiting() const CUSPAN_REQUIRES(agent_thread);
  // True if no bulk, no receive of a closed route and no unsent message is left, except for agents
  // given up.
  bool quiet() const CUSPAN_REQUIRES(agent_thread);

 private:
  struct Route {
    RouteKey key;
    std::uint32_t rank = 0;
    std::shared_ptr<Channel> channel;
    std::shared_ptr<Attachment> memory;
    // Direction from the channel to the other agent.
    std::uint64_t frame_credit = 0;          // Bytes allowed to be sent.
    std::uint32_t send_tag = 0;              // Tag of the other end's inbox; 0: not known yet.
    std::uint64_t far_slot_bytes = 0;        // Size of each receive there.
    std::vector<std::uint32_t> lane_credit;  // Receives posted there and unused, by lane.
    std::deque<std::pair<FrameHeader, Chunk>> waiting_chunks;  // Waiting for credit.
    std::uint64_t busy_slots = 0;  // Bit mask of incoming slots with a chunk waiting or being sent.
    // If the channel has a single staging slot: an incoming slot already sent, released when the
    // other end's slot is free again (see ChannelLayout).
    std::optional<std::uint32_t> held_slot;
    std::uint64_t needed_credit = 0;  // Size of the frame waiting for credit.
    // Unanswered requests in either direction: calls less replies, EventRecord less EventReached,
    // and a copy from the device without a chunk yet. A program may be waiting for any of these.
    std::int64_t open_calls = 0;
    std::int64_t open_records = 0;
    bool awaits_chunk = false;
    Pace pace;  // Last pace set on the channel.
    // Direction from the other agent to the channel.
    std::deque<std::vector<std::byte>> backlog;  // Frames waiting for room in the ring.
    std::uint64_t backlog_bytes = 0;
    std::uint64_t consumed = 0;  // Bytes posted and not yet granted again.
    ChunkInbox* inbox = nullptr;
    bool granted = false;  // The first credit was sent.
    bool has_far_wake = false;
    // Lets a client wake the other agent, as soon as the way is known.
    void TellFarWake(const Transport& transport);
    std::string failure;  // Reason to close it; empty: none.
  };
  struct Peer {
    Peer(Transport& transport, std::uint32_t rank, std::unique_ptr<ChunkSends> bulk)
        : sends(std::move(bulk)), outbox(transport, rank, *sends) {}
    std::unique_ptr<ChunkSends> sends;
    Outbox outbox;
    std::size_t routes = 0;
    bool garbled = false;  // A malformed message was received from it.
    bool given_up = false;
    std::uint64_t message_count = 0;  // Number of messages received.
  };

  bool PassOn() CUSPAN_REQUIRES(agent_thread);
  bool ReceiveMessages() CUSPAN_REQUIRES(agent_thread);
  void ReceiveItem(std::uint32_t rank, const BatchReader::Item& item) CUSPAN_REQUIRES(agent_thread);
  void ReceiveFrame(Route& route, const Frame& frame) CUSPAN_REQUIRES(agent_thread);
  static void CountAnswers(Route& route, const Frame& frame);
  void ReceiveCredit(std::uint32_t rank, const Frame& frame) CUSPAN_REQUIRES(agent_thread);
  void ReceiveRemoteChunk(std::uint32_t rank, const Frame& frame) CUSPAN_REQUIRES(agent_thread);
  void ReceiveRemoteClosed(std::uint32_t rank, const Frame& frame) CUSPAN_REQUIRES(agent_thread);
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
  void CloseBroken() CUSPAN_REQUIRES(agent_thread);
  std::uint32_t FreeTag(std::uint32_t rank) CUSPAN_REQUIRES(agent_thread);
  void ForgetOverInboxes() CUSPAN_REQUIRES(agent_thread);
  Route* Find(RouteKey key) CUSPAN_REQUIRES(agent_thread);

  Transport& transport_;
  Carrier& carrier_;
  const Handlers handlers_;
  std::map<RouteKey, Route> routes_ CUSPAN_GUARDED_BY(agent_thread);
  std::vector<Peer> peers_ CUSPAN_GUARDED_BY(agent_thread);
  // Receives for the chunks of other agents, by rank and tag: of open routes, and left over from
  // closed ones.
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::unique_ptr<ChunkInbox>> inboxes_
      CUSPAN_GUARDED_BY(agent_thread);
  std::uint32_t last_tag_ CUSPAN_GUARDED_BY(agent_thread) = 0;
  // The last frame from another agent.
  struct LastReceived {
    RouteKey route = {};
    int vain_wakes = 0;  // Wakes of its receiver since then.
  };
  LastReceived last_received_ CUSPAN_GUARDED_BY(agent_thread);
  BulkTable bulk_ CUSPAN_GUARDED_BY(agent_thread);
  std::vector<std::uint64_t> finished_ CUSPAN_GUARDED_BY(agent_thread);
};

}  // namespace cuspan

// The relay of an agent: frames and bulk between the channels on its node and
// the agents of other nodes.
//
// Frames of one route keep their order. A Chunk is not passed on as a frame: its
// bytes go from the staging slot in which they lie straight into a slot at the
// other end, which that end has reserved before; frames behind it do not wait.
// Chunks of one route arrive in their order, and never before a frame that
// was posted ahead of them.
//
// Bounds: each end grants the other so many bytes of frames and so many staging
// slots a route, and grants more as its channel takes them. So a channel that nobody
// reads holds up nothing but itself, and memory is bounded.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "launcher/agent/batch.h"
#include "launcher/agent/transport.h"
#include "protocol/channel/channel.h"

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
  // `sends_in_flight` bounds the bulk sends to one agent at a time. To one that takes them slowly
  // there are two at most: frames wait behind what is under way.
  Relay(Transport& transport, std::uint32_t sends_in_flight, Handlers handlers);

  // Control messages go ahead of frames that are not yet on their way.
  template <typename T>
  void SendControl(std::uint32_t rank, const T& message) {
    peers_[rank].control.push_back(MakeFrame(message));
  }

  // Joins a channel of this node to the route's other end. Both ends open it
  // before either sends: the far one first.
  void Open(RouteKey route, std::uint32_t rank, std::shared_ptr<Channel> channel);
  // Forgets the route; the channel is kept as long as bulk uses its memory.
  void Close(RouteKey route);
  // Passes on what the channel holds now, as far as the other end has room.
  void Flush(RouteKey route);

  // One pass over everything; true when something moved.
  bool Progress();
  // True when a pass would find something in a channel. Cheap, for Bell::Wait.
  bool HasWork();
  bool has_routes() const { return !routes_.empty(); }
  // A call was passed on and its reply not yet: it will come soon.
  bool awaiting_replies() const;
  // No bulk and no unsent message.
  bool quiet() const;

 private:
  struct IncomingChunk {
    FrameHeader header;  // Of the Chunk to be posted.
    Chunk chunk;
    bool complete = false;
  };
  struct Route {
    RouteKey key;
    std::uint32_t rank = 0;
    std::shared_ptr<Channel> channel;
    // From the channel to the other agent.
    std::uint64_t frame_credit = 0;  // Bytes that may still be sent.
    std::uint32_t chunk_credit = 0;  // Slots that are reserved for us there.
    std::deque<std::pair<FrameHeader, Chunk>> waiting_chunks;  // For credit, or for a send to end.
    std::uint64_t busy_slots =
        0;  // Incoming slots whose chunks are waiting or being sent: a bit each.
    // An incoming slot that was sent and is given back when the other end's is free again, where
    // there is but one (see ChannelLayout).
    std::optional<std::uint32_t> held_slot;
    std::uint64_t needed_credit = 0;  // Of the frame that waits for it.
    std::int64_t open_calls = 0;      // Requests that passed, either way, less replies.
    // From the other agent to the channel.
    std::deque<std::vector<std::byte>> backlog;  // Frames for which the ring had no room.
    std::uint64_t backlog_bytes = 0;
    std::uint64_t consumed = 0;                 // Bytes that were posted and not yet granted again.
    std::vector<std::uint32_t> reserved_slots;  // Outgoing slots kept for the other end's chunks.
    std::uint32_t slots_outside =
        0;  // Outgoing slots that are not reserved: posted, or being filled.
    std::uint32_t ungranted_slots = 0;  // Reserved slots of which the other end does not know.
    std::deque<std::shared_ptr<IncomingChunk>> incoming;
    std::string failure;  // Why it shall be closed.
  };
  struct Bulk {
    bool sending = false;
    std::chrono::steady_clock::time_point started;  // Of a send.
    RouteKey route;
    std::shared_ptr<Channel> channel;  // Keeps the memory.
    std::uint32_t rank = 0;
    std::uint32_t slot = 0;
    std::shared_ptr<IncomingChunk> incoming;
    std::vector<std::byte> discarded;  // Memory for a chunk whose route is gone.
  };
  struct Peer {
    std::deque<std::vector<std::byte>> control;
    BatchWriter batch;
    std::uint32_t bulk_sends = 0;
    bool slow = false;  // The last of them took long.
    std::uint32_t next_tag = 0;
    bool garbled = false;  // A message that no agent writes came from it.
  };

  bool ReceiveMessages();
  void TakeItem(std::uint32_t rank, const BatchReader::Item& item);
  void TakeFrame(Route& route, const Frame& frame);
  static void CountCall(Route& route, const Frame& frame);
  void TakeCredit(std::uint32_t rank, const Frame& frame);
  void TakeRemoteChunk(std::uint32_t rank, const Frame& frame);
  bool FinishBulk();
  static void FinishSend(Route& route, std::uint32_t slot);
  bool Deliver(Route& route);
  bool PostToChannel(Route& route, const FrameHeader& header, Bytes payload);
  bool ReserveSlots(Route& route);
  void Grant(Route& route);
  bool Collect(Route& route);
  bool CollectFrame(Route& route, const Frame& frame);
  bool StartChunks(Route& route);
  bool Append(std::uint32_t rank, RouteKey route, const FrameHeader& header, Bytes payload);
  template <typename T>
  bool AppendMessage(std::uint32_t rank, const T& message, std::uint32_t request,
                     std::uint64_t sequence);
  bool SendBatch(std::uint32_t rank);
  void CloseBroken();
  Route* Find(RouteKey key);

  Transport& transport_;
  const std::uint32_t sends_in_flight_;
  const Handlers handlers_;
  std::map<RouteKey, Route> routes_;
  std::vector<Peer> peers_;
  std::map<std::uint64_t, Bulk> bulks_;
  std::uint64_t last_bulk_ = 0;
  std::vector<std::uint64_t> finished_;
};

}  // namespace cuspan

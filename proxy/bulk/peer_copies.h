// Copies between this device and others without access to each other's memory. The bytes go from
// proxy to proxy, through the staging slots of a channel between the two.
//
// Each proxy has an op in one of its streams. When the receiver's device has reached the copy, it
// sends clear to send (PeerClearToSend). The sender takes slots once this has arrived and its own
// device has reached the copy, too. So no waiting copy ever holds a slot. Copies in all directions
// block each other at most for the transfer of one slot. After writing all bytes, the receiver
// sends PeerEnd. If the copy is ordered by the sender's stream, the sender's stream continues then.
// Either side may end a copy with a failure.
//
// Threads: the receiving thread, unless noted otherwise.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "common/mutex.h"
#include "proxy/bulk/slot_queue.h"
#include "proxy/bulk/staged_copies.h"
#include "proxy/gpu/boxes.h"
#include "proxy/objects/array.h"
#include "proxy/objects/handle_table.h"
#include "proxy/streams/roles.h"
#include "proxy/streams/stream.h"
#include "proxy/streams/timeline.h"

namespace cuspan::proxy {

// This proxy's half of a copy.
struct PeerCopy {
  PeerCopy(std::uint64_t id, Origin origin, std::shared_ptr<Stream> stream)
      : id(id), origin(origin), stream(std::move(stream)) {}

  const std::uint64_t id;
  const Origin origin;
  const std::shared_ptr<Stream> stream;
  std::uint32_t join = 0;
  bool sends = false;
  bool until_end = false;  // The sender's stream waits for PeerEnd.
  DeviceBox box;
  std::shared_ptr<Array> array;  // Array containing the box; kept as long as the copy.
  std::uint64_t bytes = 0;

  bool holds CUSPAN_GUARDED_BY(receiving_thread) =
      false;  // Holds its stream: from Begin until Release.
  bool reached CUSPAN_GUARDED_BY(receiving_thread) =
      false;  // The device has completed the work before it.
  bool wanted CUSPAN_GUARDED_BY(receiving_thread) = false;  // The receiver is clear to send.
  bool ended CUSPAN_GUARDED_BY(receiving_thread) = false;
  std::uint64_t submitted CUSPAN_GUARDED_BY(receiving_thread) = 0;
};

class PeerCopies {
 public:
  PeerCopies(const Driver& driver, Channel& client, Faults& faults, StreamQueues& queues,
             EventPool& events, Completer& completer, Timeline& timeline)
      : client_(client),
        faults_(faults),
        queues_(queues),
        events_(events),
        completer_(completer),
        staged_(driver, events, completer, timeline),
        inbox_(std::make_shared<Inbox>()) {}

  // Adds a channel to another proxy under the number `join`. Threads: any.
  void Add(std::uint32_t join, std::shared_ptr<Channel> channel);

  // Registers a received copy; Begin follows in stream order. kInvalid if its number is in use.
  Status Announce(const std::shared_ptr<PeerCopy>& copy) CUSPAN_REQUIRES(receiving_thread);
  // Begins the copy: called by the queues when its stream has reached it.
  SubmitResult Begin(const std::shared_ptr<PeerCopy>& copy) CUSPAN_REQUIRES(receiving_thread);
  // Ends the copy with a failure. Both sides report it.
  void Fail(const std::shared_ptr<PeerCopy>& copy, CUresult result)
      CUSPAN_REQUIRES(receiving_thread);
  // Fails a copy: the client has no other half for it.
  void Abandon(std::uint32_t join, std::uint64_t id) CUSPAN_REQUIRES(receiving_thread);
  // Drops the copy's op: the device is lost.
  void Drop(const std::shared_ptr<PeerCopy>& copy) CUSPAN_REQUIRES(receiving_thread);

  // True if Progress has work. Cheap; for Bell::Wait.
  bool HasWork() CUSPAN_REQUIRES(receiving_thread);
  void Progress() CUSPAN_REQUIRES(receiving_thread);

 private:
  // Items passed to the receiving thread by other threads. Outlives PeerCopies, for late
  // completions.
  struct Inbox {
    Mutex mutex;
    std::vector<std::pair<std::uint32_t, std::shared_ptr<Channel>>> joined CUSPAN_GUARDED_BY(mutex);
    std::vector<std::shared_ptr<PeerCopy>> reached CUSPAN_GUARDED_BY(mutex);
    std::atomic<bool> any{false};
  };
  // Messages received for a copy before its announcement.
  struct Early {
    bool wanted = false;
    CUresult failure = CUDA_SUCCESS;
  };
  struct Peer {
    std::shared_ptr<Channel> channel;  // Null after the peer has gone.
    std::unordered_map<std::uint64_t, std::shared_ptr<PeerCopy>> copies;
    std::unordered_map<std::uint64_t, Early> early;
    SlotQueue<PeerCopy> sending;  // Copies ready to take slots.
  };

  void ReceiveInbox() CUSPAN_REQUIRES(receiving_thread);
  void Reached(const std::shared_ptr<PeerCopy>& copy) CUSPAN_REQUIRES(receiving_thread);
  void SendIfReady(Peer& peer, const std::shared_ptr<PeerCopy>& copy)
      CUSPAN_REQUIRES(receiving_thread);
  bool ReceiveFrames(Peer& peer) CUSPAN_REQUIRES(receiving_thread);
  bool ReceiveFrame(Peer& peer, const Frame& frame) CUSPAN_REQUIRES(receiving_thread);
  bool ReceiveChunk(Peer& peer, const Chunk& chunk) CUSPAN_REQUIRES(receiving_thread);
  bool ReceiveClearToSend(Peer& peer, std::uint64_t id) CUSPAN_REQUIRES(receiving_thread);
  bool ReceiveEnd(Peer& peer, std::uint64_t id, CUresult result) CUSPAN_REQUIRES(receiving_thread);
  void SendPieces(Peer& peer) CUSPAN_REQUIRES(receiving_thread);
  CUresult SendPiece(Peer& peer, PeerCopy& copy, std::uint32_t slot)
      CUSPAN_REQUIRES(receiving_thread);
  void Lose(Peer& peer) CUSPAN_REQUIRES(receiving_thread);
  // Removes a copy; its stream continues.
  void End(Peer& peer, const std::shared_ptr<PeerCopy>& copy) CUSPAN_REQUIRES(receiving_thread);
  void Release(PeerCopy& copy) CUSPAN_REQUIRES(receiving_thread);
  Early& EarlyOf(Peer& peer, std::uint64_t id) CUSPAN_REQUIRES(receiving_thread);

  Channel& client_;
  Faults& faults_;
  StreamQueues& queues_;
  EventPool& events_;
  Completer& completer_;
  StagedCopies staged_;
  const std::shared_ptr<Inbox> inbox_;
  std::map<std::uint32_t, Peer> peers_ CUSPAN_GUARDED_BY(receiving_thread);
};

}  // namespace cuspan::proxy

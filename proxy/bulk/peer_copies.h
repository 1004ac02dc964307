// Copies between this device and others whose memory it does not have: the bytes
// go from proxy to proxy, through the staging slots of a channel between the two.
//
// Each of the two has an op in one of its streams. The receiver asks for the
// bytes (PeerClearToSend) when its device has come to the copy; the sender takes slots
// when that has arrived and its own device has come so far, too. So no slot is
// ever held by a copy that waits for something, and copies in all directions can
// not be in each other's way for longer than a slot takes to go.
// The receiver says when all is written (PeerEnd); where the order is the
// sender's stream's, that stream goes on then. Either of them may end a copy
// with a failure.
//
// Threads: the receiving thread, unless said otherwise.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "common/mutex.h"
#include "proxy/bulk/slot_turns.h"
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
  bool until_end = false;  // A sender's stream waits for the receiver's end.
  DeviceBox box;
  std::shared_ptr<Array> array;  // That the box lies in, kept as long as the copy.
  std::uint64_t bytes = 0;

  bool holds CUSPAN_GUARDED_BY(receiving_thread) =
      false;  // Its stream, from its turn until Release.
  bool reached CUSPAN_GUARDED_BY(receiving_thread) =
      false;  // The device has done what comes before.
  bool wanted CUSPAN_GUARDED_BY(receiving_thread) = false;  // The receiver has asked.
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

  // A channel to another proxy, from now on known by the join's number. Any thread.
  void Add(std::uint32_t join, std::shared_ptr<Channel> channel);

  // A copy has arrived that will have its turn in its stream. kInvalid when its number is in use.
  Status Announce(const std::shared_ptr<PeerCopy>& copy) CUSPAN_REQUIRES(receiving_thread);
  // Its turn has come. Called from the queues.
  SubmitResult Begin(const std::shared_ptr<PeerCopy>& copy) CUSPAN_REQUIRES(receiving_thread);
  // It ends here with a failure, which both ends report.
  void Fail(const std::shared_ptr<PeerCopy>& copy, CUresult result)
      CUSPAN_REQUIRES(receiving_thread);
  // The client has no other half for it.
  void Abandon(std::uint32_t join, std::uint64_t id) CUSPAN_REQUIRES(receiving_thread);
  // Its op is dropped: the device is lost.
  void Drop(const std::shared_ptr<PeerCopy>& copy) CUSPAN_REQUIRES(receiving_thread);

  // Whether Progress has something to do. Cheap; for Bell::Wait.
  bool HasWork() CUSPAN_REQUIRES(receiving_thread);
  void Progress() CUSPAN_REQUIRES(receiving_thread);

 private:
  // What another thread leaves for the receiving one. Outlives this for those that come late.
  struct Inbox {
    Mutex mutex;
    std::vector<std::pair<std::uint32_t, std::shared_ptr<Channel>>> joined CUSPAN_GUARDED_BY(mutex);
    std::vector<std::shared_ptr<PeerCopy>> reached CUSPAN_GUARDED_BY(mutex);
    std::atomic<bool> any{false};
  };
  // What came for a copy before it was announced.
  struct Early {
    bool wanted = false;
    CUresult failure = CUDA_SUCCESS;
  };
  struct Peer {
    std::shared_ptr<Channel> channel;  // Null when it is gone.
    std::unordered_map<std::uint64_t, std::shared_ptr<PeerCopy>> copies;
    std::unordered_map<std::uint64_t, Early> early;
    SlotTurns<PeerCopy> sending;  // Those that may take slots.
  };

  void TakeInbox() CUSPAN_REQUIRES(receiving_thread);
  void Reached(const std::shared_ptr<PeerCopy>& copy) CUSPAN_REQUIRES(receiving_thread);
  void SendIfReady(Peer& peer, const std::shared_ptr<PeerCopy>& copy)
      CUSPAN_REQUIRES(receiving_thread);
  bool TakeFrames(Peer& peer) CUSPAN_REQUIRES(receiving_thread);
  bool TakeFrame(Peer& peer, const Frame& frame) CUSPAN_REQUIRES(receiving_thread);
  bool TakeChunk(Peer& peer, const Chunk& chunk) CUSPAN_REQUIRES(receiving_thread);
  bool TakeWanted(Peer& peer, std::uint64_t id) CUSPAN_REQUIRES(receiving_thread);
  bool TakeEnd(Peer& peer, std::uint64_t id, CUresult result) CUSPAN_REQUIRES(receiving_thread);
  void SendPieces(Peer& peer) CUSPAN_REQUIRES(receiving_thread);
  CUresult SendPiece(Peer& peer, PeerCopy& copy, std::uint32_t slot)
      CUSPAN_REQUIRES(receiving_thread);
  void Lose(Peer& peer) CUSPAN_REQUIRES(receiving_thread);
  // Ends a copy: it is forgotten, and its stream goes on.
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

// Bulk copies between the device and the client, or another device.
#pragma once

#include "proxy/bulk/peer_copies.h"
#include "proxy/bulk/transfers.h"
#include "proxy/session/session_streams.h"
#include "proxy/streams/roles.h"
#include "proxy/streams/timeline.h"

namespace cuspan::proxy {

// Threads: the receiving thread.
class SessionBulk {
 public:
  // All references outlive it, except for the completer and the timeline: no calls after their end.
  SessionBulk(const Driver& driver, Channel& channel, Faults& faults, SessionStreams& streams,
              Completer& completer, Timeline& timeline)
      : transfers_(driver, channel, faults, streams.queues(), streams.pending_limit(),
                   streams.points().events(), completer, timeline),
        peer_copies_(driver, channel, faults, streams.queues(), streams.points().events(),
                     completer, timeline) {}

  Transfers& transfers() { return transfers_; }
  PeerCopies& peer_copies() { return peer_copies_; }

  // True if a waiting copy may continue. Cheap; for Bell::Wait.
  bool MayGoOn() CUSPAN_REQUIRES(receiving_thread) {
    return transfers_.SlotCameFree() || peer_copies_.HasWork();
  }
  void GoOn() CUSPAN_REQUIRES(receiving_thread) {
    if (transfers_.SlotCameFree()) transfers_.UseFreeSlots();
    if (peer_copies_.HasWork()) peer_copies_.Progress();
  }

 private:
  Transfers transfers_;
  PeerCopies peer_copies_;
};

}  // namespace cuspan::proxy

// One client's use of one device, for the handlers.
#pragma once

#include <optional>

#include "proxy/bulk/join_inbox.h"
#include "proxy/gpu/device.h"
#include "proxy/nccl/collectives.h"
#include "proxy/session/session_bulk.h"
#include "proxy/session/session_memory.h"
#include "proxy/session/session_objects.h"
#include "proxy/session/session_sharing.h"
#include "proxy/session/session_streams.h"
#include "proxy/streams/completion.h"
#include "proxy/streams/faults.h"
#include "proxy/streams/roles.h"
#include "proxy/streams/timeline.h"
#include "proxy/streams/worker.h"

namespace cuspan::proxy {

class DeviceSession {
 public:
  // All outlive the session. The device's context is current to the
  // calling thread, which becomes the receiving thread. Without `exchange` no other proxy of the
  // node can have this device's memory, nor this one others'; without `joins` none can send it any.
  DeviceSession(const Driver& driver, const Device& device, Channel& channel,
                std::optional<ExchangeSocket> exchange = std::nullopt, JoinInbox* joins = nullptr);

  // --- Its surroundings

  const Driver& driver() const { return driver_; }
  const Device& device() const { return device_; }
  Channel& channel() { return channel_; }
  JoinInbox* joins() { return joins_; }

  // --- Its parts

  Faults& faults() { return faults_; }
  SessionStreams& streams() { return streams_; }
  SessionObjects& objects() { return objects_; }
  SessionMemory& memory() { return memory_; }
  const SessionMemory& memory() const { return memory_; }
  SessionBulk& bulk() { return bulk_; }
  Collectives& collectives() { return collectives_; }
  SessionSharing& sharing() { return sharing_; }
  Worker& worker() { return worker_; }
  Completer& completer() { return completer_; }
  Timeline& timeline() { return timeline_; }

  // Whether something that had to wait, for the device, another thread or another process, may go
  // on. Cheap; for Bell::Wait.
  bool MayGoOn() CUSPAN_REQUIRES(receiving_thread);
  void GoOn() CUSPAN_REQUIRES(receiving_thread);
  // The device is lost: drops all waiting work.
  void DropAll() CUSPAN_REQUIRES(receiving_thread);

 private:
  const Driver& driver_;
  const Device& device_;
  Channel& channel_;
  JoinInbox* const joins_;

  Faults faults_;
  SessionStreams streams_;
  SessionObjects objects_;
  SessionMemory memory_;
  SessionBulk bulk_;
  Collectives collectives_;
  SessionSharing sharing_;
  // The worker's tasks use what is above, and the completer's answers that and the worker: the last
  // to be made ends first, and with its thread what may come from there.
  Worker worker_;
  Completer completer_;
  Timeline timeline_;
};

// A reply that says only that the call failed.
template <typename T>
typename T::Reply FailedReply(CUresult result) {
  typename T::Reply reply;
  reply.result = result;
  return reply;
}

}  // namespace cuspan::proxy

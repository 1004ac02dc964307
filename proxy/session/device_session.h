// State of one client's session on one device, for the handlers.
#pragma once

#include <optional>

#include "proxy/bulk/join_inbox.h"
#include "proxy/gpu/device.h"
#include "proxy/nccl/collectives.h"
#include "proxy/session/session_bulk.h"
#include "proxy/session/session_files.h"
#include "proxy/session/session_memory.h"
#include "proxy/session/session_objects.h"
#include "proxy/session/session_sharing.h"
#include "proxy/session/session_streams.h"
#include "proxy/session/submitters.h"
#include "proxy/streams/completion.h"
#include "proxy/streams/faults.h"
#include "proxy/streams/roles.h"
#include "proxy/streams/timeline.h"
#include "proxy/streams/worker.h"

namespace cuspan::proxy {

class DeviceSession {
 public:
  // All references outlive the session. The calling thread becomes the receiving thread; the
  // device's context must be current. Without `exchange`, proxies of this node have no access to
  // each other's device memory. Without `joins`, there are no copies through other proxies.
  DeviceSession(const Driver& driver, const Device& device, Channel& channel,
                std::optional<ExchangeSocket> exchange = std::nullopt, JoinInbox* joins = nullptr,
                SubmitterThreads submitters = SubmitterThreads::ForThisMachine());

  // --- Surroundings

  const Driver& driver() const { return driver_; }
  const Device& device() const { return device_; }
  Channel& channel() { return channel_; }
  JoinInbox* joins() { return joins_; }

  // --- Parts

  Faults& faults() { return faults_; }
  SessionStreams& streams() { return streams_; }
  SessionObjects& objects() { return objects_; }
  SessionMemory& memory() { return memory_; }
  const SessionMemory& memory() const { return memory_; }
  SessionBulk& bulk() { return bulk_; }
  SessionFiles& files() { return files_; }
  Collectives& collectives() { return collectives_; }
  SessionSharing& sharing() { return sharing_; }
  Worker& worker() { return worker_; }
  Completer& completer() { return completer_; }
  Timeline& timeline() { return timeline_; }
  Submitters& submitters() { return submitters_; }

  // Finds the stream of an op's handle: SessionStreams::FindDelegated. The op's place in the order
  // is now: the driver has all delegated work before it.
  Result<std::shared_ptr<Stream>> FindStream(std::uint64_t handle)
      CUSPAN_REQUIRES(receiving_thread);

  // True if work waiting for the device, another thread or another process may continue. Cheap; for
  // Bell::Wait.
  bool MayGoOn() CUSPAN_REQUIRES(receiving_thread);
  void GoOn() CUSPAN_REQUIRES(receiving_thread);
  // Drops all waiting work: the device is lost.
  void DropAll() CUSPAN_REQUIRES(receiving_thread);

 private:
  const Driver& driver_;
  const Device& device_;
  Channel& channel_;
  JoinInbox* const joins_;

  Faults faults_;
  SessionStreams streams_;
  SessionObjects objects_;
  SessionBulk bulk_;
  SessionFiles files_;
  SessionMemory memory_;  // Its thread adds files.
  Collectives collectives_;
  SessionSharing sharing_;
  // Tasks of the worker use the members above; the completer's completions also use the worker. The
  // last member is destroyed first, and its thread makes no more calls.
  Worker worker_;
  Completer completer_;
  Timeline timeline_;
  Submitters submitters_;
};

// Returns a reply with a failure only.
template <typename T>
typename T::Reply FailedReply(CUresult result) {
  typename T::Reply reply;
  reply.result = result;
  return reply;
}

}  // namespace cuspan::proxy

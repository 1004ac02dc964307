// The proxy's state of a client's stream, and of its events.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "proxy/gpu/driver.h"
#include "proxy/streams/completion.h"
#include "proxy/streams/delegated_work.h"
#include "proxy/streams/roles.h"

namespace cuspan::proxy {

// A stream. Owner: the receiving thread.
struct Stream {
  CUstream driver = nullptr;
  CUresult broken = CUDA_SUCCESS;  // Error of its creation.
  bool blocking = true;            // Keeps order with the legacy stream.
  StreamQueue* queue = nullptr;    // Valid until the stream is retired.
  std::shared_ptr<Completer::StreamProgress> progress =
      std::make_shared<Completer::StreamProgress>();
  // Work accepted by the driver, in units of PendingLimit::Add, and its value at the last mark.
  std::uint64_t submitted CUSPAN_GUARDED_BY(receiving_thread) = 0;
  std::uint64_t marked CUSPAN_GUARDED_BY(receiving_thread) = 0;
  // Value of `submitted` when its last chunk was sent towards the client.
  std::uint64_t chunk_behind CUSPAN_GUARDED_BY(receiving_thread) = 0;
  std::uint64_t found_done CUSPAN_GUARDED_BY(receiving_thread) =
      0;  // Value of `submitted` when the driver last reported the stream idle.
  // Time of its last op, in the count of SessionStreams::Submitted over all streams.
  std::uint64_t sequence CUSPAN_GUARDED_BY(receiving_thread) = 0;
  // Null until Asked().
  std::shared_ptr<AskedStream> asked CUSPAN_GUARDED_BY(receiving_thread);

  DelegatedWork delegated;

  // The stream as the completer knows it.
  const std::shared_ptr<AskedStream>& Asked() CUSPAN_REQUIRES(receiving_thread) {
    if (asked == nullptr) asked = std::make_shared<AskedStream>(driver);
    return asked;
  }
  bool Idle() const CUSPAN_REQUIRES(receiving_thread) { return progress->completed() == submitted; }
};

// An event and its known records. Owner: the receiving thread.
struct Event {
  std::uint32_t flags = 0;
  std::uint64_t records CUSPAN_GUARDED_BY(receiving_thread) =
      0;  // Number of the last record received.
  // Records by number: the last one, incomplete ones, and records with waits but not received yet.
  // If two threads of the program record and wait, the waiting thread may post first.
  std::map<std::uint64_t, std::shared_ptr<EventRecordState>> live
      CUSPAN_GUARDED_BY(receiving_thread);
};

}  // namespace cuspan::proxy

// A stream of the client and its events, as this proxy has them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "proxy/gpu/driver.h"
#include "proxy/streams/completion.h"
#include "proxy/streams/roles.h"

namespace cuspan::proxy {

class LaunchBatches;

// A stream. Of the receiving thread.
struct Stream {
  CUstream driver = nullptr;
  CUresult broken = CUDA_SUCCESS;  // Why the driver made none.
  bool blocking = true;            // Keeps order with the legacy stream.
  StreamQueue* queue = nullptr;    // Valid until the stream is retired.
  bool leaving CUSPAN_GUARDED_BY(receiving_thread) =
      false;  // It was destroyed, and may still have ops that wait.
  std::shared_ptr<Completer::StreamProgress> progress =
      std::make_shared<Completer::StreamProgress>();
  // What the driver took, in units of PendingLimit::Add, and how much of it when last
  // marked.
  std::uint64_t submitted CUSPAN_GUARDED_BY(receiving_thread) = 0;
  std::uint64_t marked CUSPAN_GUARDED_BY(receiving_thread) = 0;
  // How much that was when its last chunk began its way to the client.
  std::uint64_t chunk_behind CUSPAN_GUARDED_BY(receiving_thread) = 0;
  std::uint64_t found_done CUSPAN_GUARDED_BY(receiving_thread) =
      0;  // How much that was when the driver said that all of it is done.
  // When it was given its last op: SessionStreams::Submitted counts for all.
  std::uint64_t turn CUSPAN_GUARDED_BY(receiving_thread) = 0;
  std::shared_ptr<AskedStream> asked
      CUSPAN_GUARDED_BY(receiving_thread);  // Made when it is needed.
  // The same, when so many launches have come that were worth one.
  std::shared_ptr<LaunchBatches> batches CUSPAN_GUARDED_BY(receiving_thread);
  unsigned worth_batches CUSPAN_GUARDED_BY(receiving_thread) = 0;

  bool Idle() const CUSPAN_REQUIRES(receiving_thread) { return progress->completed() == submitted; }
};

// An event: what is known of its records. Of the receiving thread.
struct Event {
  std::uint32_t flags = 0;
  std::uint64_t records CUSPAN_GUARDED_BY(receiving_thread) =
      0;  // The number of the last one that arrived.
  // By number: the last one, those that are not complete, and those that are
  // waited for and have not arrived (of two threads of the app the waiting one
  // may post first).
  std::map<std::uint64_t, std::shared_ptr<EventRecordState>> live
      CUSPAN_GUARDED_BY(receiving_thread);
};

}  // namespace cuspan::proxy

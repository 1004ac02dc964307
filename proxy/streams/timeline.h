// Start and end times of work on the device, converted from the device's clock to the node's, for a
// traced run. Costs two events for each piece of work if the run is traced, else one test of a
// pointer.
#pragma once

#include <memory>
#include <string_view>

#include "common/trace.h"
#include "proxy/streams/completion.h"
#include "proxy/streams/roles.h"
#include "proxy/streams/stream.h"

namespace cuspan::proxy {

// Threads: the receiving thread.
class Timeline {
 public:
  // The device's context must be current, and the device idle.
  Timeline(const Driver& driver, EventPool& timing_events, Completer& completer);

  bool traced() const { return clock_ != nullptr; }

  // Start of a piece of work in its stream; empty if the run is not traced.
  struct Start {
    PooledEvent event;
  };
  Start Begin(CUstream stream) CUSPAN_REQUIRES(receiving_thread) {
    return clock_ == nullptr ? Start() : BeginTraced(stream);
  }
  // The work has been submitted. Its times are recorded on completion.
  void End(Start start, Stream& stream, TraceKind kind, std::uint64_t transfer,
           std::uint64_t offset, std::uint64_t bytes, std::string_view name = {})
      CUSPAN_REQUIRES(receiving_thread) {
    if (start.event.get() != nullptr) [[unlikely]]
      EndTraced(std::move(start), stream, kind, transfer, offset, bytes, name);
  }

 private:
  // Owner: the polling thread (see Completer).
  struct Clock {
    PooledEvent event;       // A point of the device's time,
    std::uint64_t time = 0;  // and the same point of ours.
  };
  Start BeginTraced(CUstream stream) CUSPAN_REQUIRES(receiving_thread);
  void EndTraced(Start start, Stream& stream, TraceKind kind, std::uint64_t transfer,
                 std::uint64_t offset, std::uint64_t bytes, std::string_view name)
      CUSPAN_REQUIRES(receiving_thread);

  const Driver& driver_;
  EventPool& events_;
  Completer& completer_;
  std::shared_ptr<Clock> clock_;
};

}  // namespace cuspan::proxy

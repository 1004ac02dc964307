// When the device did what, by its own clock brought to this node's: for a traced
// run. Costs two events for each piece of work while the run is traced, and one
// look at a pointer else.
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
  // The device's context is current, and it has nothing to do yet.
  Timeline(const Driver& driver, EventPool& timing_events, Completer& completer);

  bool traced() const { return clock_ != nullptr; }

  // Where a piece of work starts in its stream; empty when the run is not traced.
  struct Start {
    PooledEvent event;
  };
  Start Begin(CUstream stream) CUSPAN_REQUIRES(receiving_thread) {
    return clock_ == nullptr ? Start() : BeginTraced(stream);
  }
  // The work has been handed over. Its times are recorded when it is complete.
  void End(Start start, Stream& stream, TraceKind kind, std::uint64_t transfer,
           std::uint64_t offset, std::uint64_t bytes, std::string_view name = {})
      CUSPAN_REQUIRES(receiving_thread) {
    if (start.event.get() != nullptr) [[unlikely]]
      EndTraced(std::move(start), stream, kind, transfer, offset, bytes, name);
  }

 private:
  // Of those who look for completions, one at a time.
  struct Clock {
    PooledEvent event;       // A point of the device's time,
    std::uint64_t time = 0;  // and of ours.
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

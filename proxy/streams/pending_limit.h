// Keeps each stream far from the driver's own limit for pending work.
//
// The vendor's driver makes the calling thread wait when about 1,020 ops of a stream are pending,
// or when its room for the bytes of small copies (some MiB; both measured) is used up, and with it
// every other stream of the thread. So a stream is paused long before, and resumed when
// half of its work is done.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "proxy/gpu/events.h"
#include "proxy/streams/completion.h"
#include "proxy/streams/faults.h"
#include "proxy/streams/queues.h"
#include "proxy/streams/roles.h"
#include "proxy/streams/stream.h"

namespace cuspan::proxy {

// What the bytes of a small copy weigh beside the op itself.
inline constexpr std::uint64_t kInlineBytesPerUnit = 1024;

// Threads: the receiving thread.
class PendingLimit {
 public:
  // All outlive it. `events` are without times.
  PendingLimit(Faults& faults, EventPool& events, StreamQueues& queues, Completer& completer)
      : faults_(faults), events_(events), queues_(queues), completer_(completer) {}

  // The driver took an op with so many units of its room: one, and one more for each
  // kInlineBytesPerUnit of the op's own bytes.
  void Add(const std::shared_ptr<Stream>& stream, std::uint64_t units)
      CUSPAN_REQUIRES(receiving_thread) {
    stream->submitted += units;
    if (stream->submitted - stream->marked >= kMarkEvery) [[unlikely]]
      Mark(stream);
  }
  // Whether a paused stream may go on. Cheap.
  bool SomeMayResume() const CUSPAN_REQUIRES(receiving_thread);
  void Resume() CUSPAN_REQUIRES(receiving_thread);
  // The device is lost, and nothing goes on.
  void Forget() CUSPAN_REQUIRES(receiving_thread) { paused_.clear(); }

 private:
  static constexpr std::uint64_t kMaxPending = 256;
  static constexpr std::uint64_t kMarkEvery = 64;

  void Mark(const std::shared_ptr<Stream>& stream) CUSPAN_REQUIRES(receiving_thread);
  static bool MayResume(const Stream& stream) CUSPAN_REQUIRES(receiving_thread) {
    return stream.submitted - stream.progress->completed() <= kMaxPending / 2;
  }

  Faults& faults_;
  EventPool& events_;
  StreamQueues& queues_;
  Completer& completer_;
  std::vector<std::shared_ptr<Stream>> paused_ CUSPAN_GUARDED_BY(receiving_thread);
};

}  // namespace cuspan::proxy

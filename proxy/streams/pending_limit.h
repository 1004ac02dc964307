// Keeps each stream far below the driver's own limit for pending work.
//
// NVIDIA's driver blocks the calling thread if about 1,020 ops of a stream are pending, or if its
// buffer for small copies (some MiB) is full. Both limits are measured. This would also block all
// other streams of the thread. A stream is therefore paused long before, and resumed at half of
// kMaxPending.
#pragma once

#include <algorithm>
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

// A small copy counts one unit, and one more for each of these bytes.
inline constexpr std::uint64_t kInlineBytesPerUnit = 1024;

// Threads: the receiving thread.
class PendingLimit {
 public:
  // All references outlive it. `events` are created without timing.
  PendingLimit(Faults& faults, EventPool& events, StreamQueues& queues, Completer& completer)
      : faults_(faults), events_(events), queues_(queues), completer_(completer) {}

  // The driver accepted an op of `units`: one, and one more for each kInlineBytesPerUnit of bytes
  // in the op itself.
  void Add(const std::shared_ptr<Stream>& stream, std::uint64_t units)
      CUSPAN_REQUIRES(receiving_thread) {
    stream->submitted += units;
    if (Unmarked(*stream) >= kMarkEvery) [[unlikely]]
      Mark(stream);
  }
  // True if Add marks the progress of the stream's next op of one unit, and may pause the stream.
  static bool MarksNext(const Stream& stream) CUSPAN_REQUIRES(receiving_thread) {
    return Unmarked(stream) + 1 >= kMarkEvery;
  }
  // True if a paused stream may be resumed. Cheap.
  bool SomeMayResume() const CUSPAN_REQUIRES(receiving_thread);
  void Resume() CUSPAN_REQUIRES(receiving_thread);
  // The device is lost; no stream will be resumed.
  void Forget() CUSPAN_REQUIRES(receiving_thread) { paused_.clear(); }

 private:
  static constexpr std::uint64_t kMaxPending = 256;
  static constexpr std::uint64_t kMarkEvery = 64;

  // Work with neither a mark behind it nor known to be complete.
  static std::uint64_t Unmarked(const Stream& stream) CUSPAN_REQUIRES(receiving_thread) {
    const std::uint64_t unmarked = stream.submitted - stream.marked;
    if (unmarked + 1 < kMarkEvery) [[likely]]
      return unmarked;
    return stream.submitted - std::max(stream.marked, stream.progress->completed());
  }
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

// Streams and events of a session, and the completion of their work.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/status.h"
#include "proxy/gpu/driver.h"
#include "proxy/gpu/events.h"
#include "proxy/objects/handle_table.h"
#include "proxy/session/stream_points.h"
#include "proxy/streams/completion.h"
#include "proxy/streams/faults.h"
#include "proxy/streams/pending_limit.h"
#include "proxy/streams/queues.h"
#include "proxy/streams/roles.h"
#include "proxy/streams/signals.h"
#include "proxy/streams/stream.h"
#include "proxy/streams/worker_holds.h"

namespace cuspan::proxy {

// Threads: the receiving thread.
class SessionStreams {
 public:
  // All references outlive it, except for the completer: no calls after its end.
  SessionStreams(const Driver& driver, Channel& channel, Faults& faults, Worker& worker,
                 Completer& completer);

  // --- Tables

  HandleTable<Stream>& table() CUSPAN_REQUIRES(receiving_thread) { return table_; }
  HandleTable<Event>& events() CUSPAN_REQUIRES(receiving_thread) { return events_; }
  Signals& signals() CUSPAN_REQUIRES(receiving_thread) { return signals_; }
  StreamQueues& queues() { return queues_; }
  EventPool& timing_events() { return timing_events_; }  // Used for cudaEventElapsedTime.
  WorkerHolds& holds() { return holds_; }
  PendingLimit& pending_limit() { return pending_; }
  StreamPoints& points() { return points_; }

  // Finds the stream of an op's handle; 0 and 1 are the legacy stream. kInvalid if it does not
  // exist. Delegated work may be before the op: see DeviceSession::FindStream.
  Result<std::shared_ptr<Stream>> FindDelegated(std::uint64_t handle)
      CUSPAN_REQUIRES(receiving_thread);
  bool IsLegacy(const Stream& stream) const { return &stream == legacy_.get(); }

  // --- Progress

  // Records the driver's result for an op. `units`: see PendingLimit.
  void Submitted(const std::shared_ptr<Stream>& stream, const Origin& origin, CUresult result,
                 std::uint64_t units = 1) CUSPAN_REQUIRES(receiving_thread) {
    if (result != CUDA_SUCCESS) [[unlikely]]
      return faults_.Posted(origin, result);
    stream->sequence = ++last_sequence_;
    pending_.Add(stream, units);
  }
  // True if paused or held streams may continue. Cheap; for Bell::Wait.
  bool MayGoOn() const CUSPAN_REQUIRES(receiving_thread) {
    return pending_.SomeMayResume() || holds_.SomeDone();
  }
  void GoOn() CUSPAN_REQUIRES(receiving_thread);
  // Drops all waiting ops: the device is lost.
  void DropAll() CUSPAN_REQUIRES(receiving_thread);
  // Called before the driver destroys the stream. Submitted work continues.
  void Forsake(const std::shared_ptr<Stream>& stream) CUSPAN_REQUIRES(receiving_thread);

  // --- Completion

  // Calls `answer` when all work submitted to `stream` so far is complete. Called at once, or later
  // on the completer's or this thread. kAllBefore: also the work of other streams before it, in the
  // order of the legacy stream.
  enum class Work { kOfStream, kAllBefore };
  void WhenDone(Stream& stream, Answer answer, Work work = Work::kOfStream)
      CUSPAN_REQUIRES(receiving_thread);
  // The same for all ops received so far on any stream, including queued ones.
  void WhenAllDone(Answer answer) CUSPAN_REQUIRES(receiving_thread);
  // The same for all work submitted so far.
  void WhenHandedOverDone(Answer answer) CUSPAN_REQUIRES(receiving_thread);
  // True if the device may write a mark of the client behind the stream's last work (StreamPoints::
  // PutMark). Otherwise the mark would also wait for other streams, or come before messages.
  bool DeviceMarks(const Stream& stream) CUSPAN_REQUIRES(receiving_thread);
  // True if all other streams are idle, both in the queues and on the device.
  bool OthersIdle(const Stream& stream) CUSPAN_REQUIRES(receiving_thread);
  // True if no stream has work on the device; `except` is not looked at. Queries the driver for
  // streams with work submitted after the last query.
  bool AllDone(const Stream* except = nullptr) CUSPAN_REQUIRES(receiving_thread);
  // True if all work submitted to `stream` is known to be complete. For the legacy stream, this
  // includes the work of blocking streams.
  bool Done(const Stream& stream) CUSPAN_REQUIRES(receiving_thread);

 private:
  // True if a mark in `stream` would also wait for the legacy stream's work and marks so far. A
  // call waiting for the stream must not wait for these.
  bool BehindLegacy(const Stream& stream) const CUSPAN_REQUIRES(receiving_thread);
  void ForgetOldProgress() CUSPAN_REQUIRES(receiving_thread);

  const Driver& driver_;
  Faults& faults_;
  Completer& completer_;
  EventPool timing_events_;
  StreamPoints points_;
  HandleTable<Stream> table_ CUSPAN_GUARDED_BY(receiving_thread){"stream"};
  HandleTable<Event> events_ CUSPAN_GUARDED_BY(receiving_thread){"event"};
  Signals signals_ CUSPAN_GUARDED_BY(receiving_thread);
  StreamQueues queues_ CUSPAN_GUARDED_BY(receiving_thread);
  const std::shared_ptr<Stream> legacy_ = std::make_shared<Stream>();
  PendingLimit pending_ CUSPAN_GUARDED_BY(receiving_thread);
  WorkerHolds holds_ CUSPAN_GUARDED_BY(receiving_thread);
  // Progress of destroyed streams, possibly with work on the device. Their work is complete when
  // completed() reaches the number.
  std::vector<std::pair<std::shared_ptr<Completer::StreamProgress>, std::uint64_t>> old_progress_
      CUSPAN_GUARDED_BY(receiving_thread);
  // Number of marks and events in the legacy stream with waits pending.
  std::atomic<unsigned> legacy_marks_ = 0;
  std::uint64_t last_sequence_ CUSPAN_GUARDED_BY(receiving_thread) = 0;
};

}  // namespace cuspan::proxy

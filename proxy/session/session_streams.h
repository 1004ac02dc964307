// The streams and events of a session, and the end of their work.
#pragma once

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
#include "proxy/objects/launch_batches.h"
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
  // All outlive it, but for the completer, which is used until it ends.
  SessionStreams(const Driver& driver, Bell& bell, Faults& faults, Worker& worker,
                 Completer& completer);

  // --- Tables

  HandleTable<Stream>& table() CUSPAN_REQUIRES(receiving_thread) { return table_; }
  HandleTable<Event>& events() CUSPAN_REQUIRES(receiving_thread) { return events_; }
  Signals& signals() CUSPAN_REQUIRES(receiving_thread) { return signals_; }
  StreamQueues& queues() { return queues_; }
  // Without times: cheaper; for our own marks, and for the program's events without timing.
  EventPool& plain_events() { return plain_events_; }
  EventPool& timing_events() { return timing_events_; }  // For cudaEventElapsedTime.
  WorkerHolds& holds() { return holds_; }

  // The stream of a handle in an op; 0 and 1 are the legacy stream. kInvalid when there is none.
  Result<std::shared_ptr<Stream>> Find(std::uint64_t handle) CUSPAN_REQUIRES(receiving_thread);
  bool IsLegacy(const Stream& stream) const { return &stream == legacy_.get(); }
  // Takes the batches away from all streams that have any made of kernels of `module`; without it
  // from all. They end with the last who holds them, or when they are told to.
  std::vector<std::shared_ptr<LaunchBatches>> TakeBatches(std::optional<std::uint64_t> module)
      CUSPAN_REQUIRES(receiving_thread);

  // --- Progress

  // Notes the driver's result for an op. `units`: see PendingLimit.
  void Submitted(const std::shared_ptr<Stream>& stream, const Origin& origin, CUresult result,
                 std::uint64_t units = 1) CUSPAN_REQUIRES(receiving_thread) {
    if (result != CUDA_SUCCESS) [[unlikely]]
      return faults_.Posted(origin, result);
    stream->turn = ++turns_;
    pending_.Add(stream, units);
  }
  // Whether paused or held streams may go on. Cheap; for Bell::Wait.
  bool MayGoOn() const CUSPAN_REQUIRES(receiving_thread) {
    return pending_.SomeMayResume() || holds_.SomeDone();
  }
  void GoOn() CUSPAN_REQUIRES(receiving_thread);
  // The device is lost: drops all waiting ops.
  void DropAll() CUSPAN_REQUIRES(receiving_thread);
  // The stream is about to be destroyed in the driver. What it was given goes on there.
  void Forsake(const std::shared_ptr<Stream>& stream) CUSPAN_REQUIRES(receiving_thread);

  // --- Completion

  // Calls `answer` (on the completer's or this thread, or at once) when all that was
  // handed to the driver in `stream` so far is complete.
  void WhenDone(Stream& stream, Answer answer) CUSPAN_REQUIRES(receiving_thread);
  // The same for everything that arrived on any stream before now, what waits
  // in the queues included.
  void WhenAllDone(Answer answer) CUSPAN_REQUIRES(receiving_thread);
  // The same for what was handed to the driver so far. Any op may follow after StopAsking.
  void WhenHandedOverDone(Answer answer) CUSPAN_REQUIRES(receiving_thread);
  // A wait for what nothing follows asks the stream itself, which spares this thread and the device
  // an event. To be called before anything more is handed to the driver.
  void StopAsking() CUSPAN_REQUIRES(receiving_thread) {
    if (!asked_.empty()) [[unlikely]]
      RecordAsked();
  }
  // Whether no stream but this one has anything to do, in the queues or on the device.
  bool OthersIdle(const Stream& stream) CUSPAN_REQUIRES(receiving_thread);
  // Whether no stream but this one has anything on the device. Asks the driver about those that
  // were not asked since they were given something.
  bool OthersDone(const Stream& stream) CUSPAN_REQUIRES(receiving_thread);
  // Whether all that was handed over in `stream` is known to be complete. The legacy stream also
  // stands for the work of those that keep order with it.
  bool Done(const Stream& stream) CUSPAN_REQUIRES(receiving_thread);

 private:
  void RecordAsked() CUSPAN_REQUIRES(receiving_thread);
  void ForgetOldProgress() CUSPAN_REQUIRES(receiving_thread);

  const Driver& driver_;
  Faults& faults_;
  Completer& completer_;
  EventPool plain_events_;
  EventPool timing_events_;
  HandleTable<Stream> table_ CUSPAN_GUARDED_BY(receiving_thread){"stream"};
  HandleTable<Event> events_ CUSPAN_GUARDED_BY(receiving_thread){"event"};
  Signals signals_ CUSPAN_GUARDED_BY(receiving_thread);
  StreamQueues queues_ CUSPAN_GUARDED_BY(receiving_thread);
  const std::shared_ptr<Stream> legacy_ = std::make_shared<Stream>();
  PendingLimit pending_ CUSPAN_GUARDED_BY(receiving_thread);
  WorkerHolds holds_ CUSPAN_GUARDED_BY(receiving_thread);
  // Lanes of destroyed streams that may have work on the device, each with the
  // number of ops after which it has none.
  std::vector<std::pair<std::shared_ptr<Completer::StreamProgress>, std::uint64_t>> old_progress_
      CUSPAN_GUARDED_BY(receiving_thread);
  // Streams that are asked as long as nothing follows, by those who still wait.
  std::vector<std::weak_ptr<AskedStream>> asked_ CUSPAN_GUARDED_BY(receiving_thread);
  std::uint64_t turns_ CUSPAN_GUARDED_BY(receiving_thread) = 0;
};

}  // namespace cuspan::proxy

// Actions executed when the device has reached a point of a stream: staging slots are returned,
// chunks and completed event records are sent to the client, waiting calls are answered.
//
// Each completion sent to the client carries the number of chunks pushed before it. Chunks complete
// on the device at that moment, of any stream, are pushed first. If the client has stored that many
// chunks, the program's memory contains all results from before the completion.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <variant>
#include <vector>

#include "common/mutex.h"
#include "protocol/api/file_status.h"
#include "protocol/channel/channel.h"
#include "proxy/gpu/device.h"
#include "proxy/gpu/events.h"
#include "proxy/gpu/marks.h"
#include "proxy/streams/event_clock.h"
#include "proxy/streams/faults.h"
#include "proxy/streams/kernel_output.h"
#include "proxy/streams/queues.h"

namespace cuspan::proxy {

// Part of a transfer shared by several threads: its failure.
struct TransferState {
  explicit TransferState(std::uint64_t id) : id(id) {}
  // Reports the failure of the transfer to the client. Only the first call does.
  void Fail(Channel& channel, CUresult result);

  const std::uint64_t id;
  std::atomic<bool> failed = false;
};

// One record of an event. It has a driver event of its own, so recording the event again does not
// change it.
struct EventRecordState {
  EventRecordState(std::uint64_t event, std::uint64_t record) : event(event), record(record) {}
  const std::uint64_t event;
  const std::uint64_t record;
  Dependency submitted;                // Owner: the receiving thread.
  PooledEvent driver_event;            // Set before `submitted` opens; empty if recording failed.
  bool timed = false;                  // The driver event has a time; set with it.
  std::atomic<bool> complete = false;  // The client has been notified.
};

// A stream queried directly (cuStreamQuery) for the end of its work, or for an error.
//
// Threads: any.
class AskedStream {
 public:
  explicit AskedStream(CUstream stream) : stream_(stream) {}
  CUresult Query(const Driver& driver) const;
  // Called before the stream is destroyed. From now on Query() asks the event `last`, recorded in
  // the stream.
  void Replace(PooledEvent last);

 private:
  mutable Mutex mutex_;
  const CUstream stream_;
  PooledEvent last_ CUSPAN_GUARDED_BY(mutex_);
};

// --- Actions.

// The bytes of an incoming slot have been copied to the device: return the slot.
struct GiveSlotBack {
  std::uint32_t slot;
};
// An outgoing slot holds a chunk of a transfer: send it.
struct SendChunk {
  std::shared_ptr<TransferState> transfer;
  std::uint64_t offset;
  std::uint32_t bytes;
  std::uint32_t slot;
};
// The same for a few bytes that are known already. The transfer has no others.
struct SendStatus {
  std::shared_ptr<TransferState> transfer;
  FileStatusBytes bytes;
};
struct ReachRecord {
  std::shared_ptr<EventRecordState> record;
};
// Updates the stream's progress and wakes the receiving thread. The client does not wait for it, so
// the device is polled less often.
struct ProgressMark {};
// The device has written a mark of the client: wakes its thread if it sleeps.
struct WakeClient {
  const ChannelMark* mark;
};
// Any other action. Called on the completer's or the receiving thread; must not block.
using Answer = std::function<void(CUresult result, std::uint64_t chunks)>;
using Completion = std::variant<GiveSlotBack, SendChunk, SendStatus, ReachRecord, ProgressMark,
                                WakeClient, Answer>;

// A point of a stream awaited by the completer.
struct StreamPoint {
  // The device has reached this event. An empty one: all earlier points of the stream are reached.
  StreamPoint(PooledEvent event)  // NOLINT(google-explicit-constructor): a point by itself.
      : query(event.get()), owned(std::move(event)) {}
  // The same for an event owned by another.
  explicit StreamPoint(CUevent event) : query(event) {}
  // The stream has no work left.
  explicit StreamPoint(std::shared_ptr<AskedStream> stream) : stream(std::move(stream)) {}
  // The device has reached this mark of the stream's word.
  StreamPoint(std::shared_ptr<AskedStream> stream, std::uint32_t mark)
      : stream(std::move(stream)), mark(mark) {}
  // The same for a mark of the client.
  StreamPoint(std::shared_ptr<AskedStream> stream, const ChannelMark& client, std::uint32_t value)
      : stream(std::move(stream)), mark(value), client(&client) {}

  // True if it is reached with the point before it.
  bool IsThatOfTheLast() const { return query == nullptr && stream == nullptr; }

  CUevent query = nullptr;
  PooledEvent owned;
  std::shared_ptr<AskedStream> stream;
  std::optional<std::uint32_t> mark;  // Reached, or else `stream` is asked for errors.
  const ChannelMark* client = nullptr;
};

class Completer {
 public:
  // Progress of one stream: its pending completions, in stream order.
  class StreamProgress {
   public:
    // Units of the stream's work known to be complete: the `mark` of the last completion (see Add).
    std::uint64_t completed() const { return completed_.load(std::memory_order_acquire); }
    // Sets completed() without a completion. Nothing happens, and the result is false, if any
    // completion is pending: it would be overtaken. Threads: as for Add.
    bool Complete(std::uint64_t mark) {
      if (pending_.load(std::memory_order_acquire) != 0) return false;
      completed_.store(mark, std::memory_order_release);
      return true;
    }

    // The stream's marks. Owner: the thread submitting the stream's work, except for
    // MarkWord::Reached.
    MarkWord word;

   private:
    friend class Completer;
    struct Entry {
      StreamPoint point;
      std::uint64_t mark;
      Completion completion;
    };
    std::deque<Entry> entries_;  // Owner: the polling thread.
    std::atomic<std::uint64_t> completed_ = 0;
    std::atomic<std::uint64_t> pending_ = 0;  // Completions added and not executed yet.
  };

  Completer(const Device& device, const Driver& driver, Channel& channel, Faults& faults);
  // Drops pending completions.
  ~Completer();

  // Executes `completion` when `point` of the stream is reached, after the earlier completions of
  // `progress`. Then sets progress->completed() to `mark`. `point` must be behind the earlier ones
  // in the stream: reached, it proves them reached. Threads: one at a time for each progress.
  void Add(const std::shared_ptr<StreamProgress>& progress, StreamPoint point, std::uint64_t mark,
           Completion completion);

  // --- Polling by the receiving thread ("the helper"). While awake, it polls the device itself
  // between two frames. This avoids a thread switch and contention for the driver. Meanwhile the
  // completer's thread only checks for progress: the receiving thread may block in a driver call.

  // Polls and executes due completions, unless the last poll was less than `interval` ago. Cheap if
  // no completion is pending.
  void Help(std::chrono::nanoseconds interval);
  // Polls and executes due completions, after any poll in progress on the other thread. On return,
  // completed() of all streams covers all work complete at the time of the call.
  void PollNow();
  // The receiving thread goes to sleep, or is back. In between, the completer's thread polls.
  void HelperSleeps();
  void HelperIsBack() { helper_awake_.store(true, std::memory_order_relaxed); }

  // Sends the kernels' output printed so far to the client, up to the work known to be complete.
  // Threads: any with the device's context.
  void FlushOutput() { KernelOutput::Flush(driver_, complete_); }

  // True if the client waits for a pending completion: any entry except progress marks.
  bool urgent() const { return urgent_entries_.load(std::memory_order_relaxed) != 0; }
  // Number of chunks pushed so far.
  std::uint64_t pushed() const { return pushed_.load(std::memory_order_acquire); }
  // True if chunks submitted to the device are not pushed yet.
  bool chunks_pending() const { return unpushed_.load(std::memory_order_acquire) != 0; }

 private:
  struct Arrival {
    std::shared_ptr<StreamProgress> progress;
    StreamProgress::Entry entry;
  };
  struct Report {
    std::shared_ptr<StreamProgress> progress;
    std::uint64_t mark;
    CUresult result;
    Completion completion;
  };
  void Put(Arrival arrival);
  void Loop(const Device& device);
  struct RoundResult {
    bool changed;  // An urgent entry came or went.
    bool pending;  // Entries are left.
    bool urgent;   // Urgent entries are left.
  };
  RoundResult Round();
  // Sleeps for at most `limit`. An urgent arrival ends the sleep earlier; without a limit, any
  // arrival does.
  void Sleep(std::chrono::microseconds limit);
  void ReceiveArrivals() CUSPAN_REQUIRES(polling_);
  // Finds complete entries, pushes their chunks and returns their slots. All entries found are
  // appended to `reports`.
  void Sweep(std::vector<Report>& reports) CUSPAN_REQUIRES(polling_);
  void SendReports(std::vector<Report>& reports) CUSPAN_REQUIRES(polling_);
  void Push(const SendChunk& chunk, CUresult result) CUSPAN_REQUIRES(polling_);
  void Push(const SendStatus& status, CUresult result) CUSPAN_REQUIRES(polling_);
  CUresult Query(const StreamProgress& progress, const StreamProgress::Entry& entry)
      CUSPAN_REQUIRES(polling_);

  const Driver& driver_;
  Channel& channel_;
  Faults& faults_;
  const WaitStages stages_ = WaitStages::ForThisMachine();

  Mutex mutex_;
  std::condition_variable arrived_;
  std::vector<Arrival> arrivals_ CUSPAN_GUARDED_BY(mutex_);
  bool urgent_arrival_ CUSPAN_GUARDED_BY(mutex_) = false;
  bool sleeping_ CUSPAN_GUARDED_BY(mutex_) = false;
  // The sleep has a limit. Only urgent arrivals end it early, unless the helper is awake.
  bool sleep_limited_ CUSPAN_GUARDED_BY(mutex_) = false;
  // The helper goes to sleep while entries are pending.
  bool take_over_ CUSPAN_GUARDED_BY(mutex_) = false;
  std::atomic<bool> have_arrivals_ = false;
  std::atomic<bool> ending_ = false;

  std::atomic<bool> helper_awake_ = false;
  std::atomic<std::uint64_t> rounds_ = 0;
  // Number of pending entries, arrivals included, and of the urgent ones among them.
  std::atomic<std::size_t> entries_ = 0;
  std::atomic<std::size_t> urgent_entries_ = 0;
  std::chrono::steady_clock::time_point last_help_;  // Owner: the helper.

  Mutex polling_;  // Owner: the polling thread.
  std::vector<Report> found_ CUSPAN_GUARDED_BY(polling_);
  std::vector<Report> later_ CUSPAN_GUARDED_BY(polling_);
  std::vector<Arrival> taken_ CUSPAN_GUARDED_BY(polling_);
  EventClock clock_ CUSPAN_GUARDED_BY(polling_);
  // The next sweep also asks the driver for errors of streams with pending marks.
  struct {
    std::chrono::steady_clock::time_point last;
    bool now = false;
  } errors_ CUSPAN_GUARDED_BY(polling_);
  // Streams with pending entries.
  std::vector<std::shared_ptr<StreamProgress>> active_ CUSPAN_GUARDED_BY(polling_);
  std::size_t pending_chunks_ CUSPAN_GUARDED_BY(polling_) = 0;
  // Urgent entries (all except progress marks): number pending, and number of arrivals and
  // removals.
  std::size_t urgent_ CUSPAN_GUARDED_BY(polling_) = 0;
  std::uint64_t urgent_changes_ CUSPAN_GUARDED_BY(polling_) = 0;

  std::atomic<std::uint64_t> pushed_ = 0;
  std::atomic<std::uint64_t> unpushed_ = 0;
  const CUevent complete_;  // Recorded before all work.
  std::thread thread_;
};

}  // namespace cuspan::proxy

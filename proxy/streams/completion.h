// What happens when the device has reached a point of a stream: staging slots
// go back, chunks and completed event records go to the client, waiting calls are
// answered.
//
// A completion that the client is told of carries the number of chunks pushed
// before it. All chunks that were complete on the device at that moment, of
// whatever stream, are pushed first: so when the client has stored that many,
// everything that happened before the completion lies in the app's memory.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <variant>
#include <vector>

#include "common/mutex.h"
#include "protocol/channel/channel.h"
#include "proxy/gpu/device.h"
#include "proxy/gpu/events.h"
#include "proxy/streams/faults.h"
#include "proxy/streams/kernel_output.h"
#include "proxy/streams/queues.h"

namespace cuspan::proxy {

// A transfer as far as its failure concerns several threads.
struct TransferState {
  explicit TransferState(std::uint64_t id) : id(id) {}
  // Tells the client, the first time, that the transfer ends here.
  void Fail(Channel& channel, CUresult result);

  const std::uint64_t id;
  std::atomic<bool> failed = false;
};

// One record of an event. The driver's event is its own, so that a record stays
// what it was when the event is recorded again.
struct EventRecordState {
  EventRecordState(std::uint64_t event, std::uint64_t record) : event(event), record(record) {}
  const std::uint64_t event;
  const std::uint64_t record;
  Dependency submitted;                // Of the receiving thread.
  PooledEvent driver_event;            // Set before the gate opens; empty when recording failed.
  std::atomic<bool> complete = false;  // The client has been told.
};

// A stream that is asked itself whether it is done. An event says when all is done that was there
// before it; but in a stream that keeps order with the legacy stream it comes after what is there,
// too, and whoever waits for a stream does not wait for that.
//
// Threads: any.
class AskedStream {
 public:
  explicit AskedStream(CUstream stream) : stream_(stream) {}
  CUstream stream() const { return stream_; }
  CUresult Query(const Driver& driver) const;
  // The stream is about to be destroyed, or given more: from now on `last`, recorded in it, is
  // asked; or, where that could not be, the answer is why.
  void Replace(PooledEvent last);
  void Fail(CUresult why);

 private:
  mutable Mutex mutex_;
  const CUstream stream_;
  PooledEvent last_ CUSPAN_GUARDED_BY(mutex_);
  CUresult failed_ CUSPAN_GUARDED_BY(mutex_) = CUDA_SUCCESS;
};

// --- What to do.

// An incoming slot's bytes have been copied to the device.
struct GiveSlotBack {
  std::uint32_t slot;
};
// An outgoing slot holds a piece of a transfer.
struct SendChunk {
  std::shared_ptr<TransferState> transfer;
  std::uint64_t offset;
  std::uint32_t bytes;
  std::uint32_t slot;
};
struct ReachRecord {
  std::shared_ptr<EventRecordState> record;
};
// Nothing but the progress's progress, of which the receiving thread hears. Nobody
// waits for it at this moment, so the device is asked less often.
struct ProgressMark {};
// Anything else; called on the completer's or the receiving thread, must not block.
using Answer = std::function<void(CUresult result, std::uint64_t chunks)>;
using Completion = std::variant<GiveSlotBack, SendChunk, ReachRecord, ProgressMark, Answer>;

class Completer {
 public:
  // The completions of one stream, in its order.
  class StreamProgress {
   public:
    // How many of the stream's ops are known to be complete; see Add.
    std::uint64_t completed() const { return completed_.load(std::memory_order_acquire); }

   private:
    friend class Completer;
    struct Entry {
      CUevent
          query;  // Null, without a stream: reached as soon as it is the oldest of its progress.
      PooledEvent owned;
      std::shared_ptr<AskedStream> stream;
      std::uint64_t mark;
      Completion completion;
    };
    std::deque<Entry> entries_;  // Of the thread that looks.
    std::atomic<std::uint64_t> completed_ = 0;
  };

  Completer(const Device& device, const Driver& driver, Channel& channel, Faults& faults);
  // Forgets what is pending.
  ~Completer();

  // Does `completion` when the device has reached `event`, after the earlier
  // ones of the progress, and then says through the progress that `mark` ops are
  // complete. Threads: one at a time for each progress.
  void Add(const std::shared_ptr<StreamProgress>& progress, PooledEvent event, std::uint64_t mark,
           Completion completion);
  // The same when the stream itself has nothing to do any more.
  void AddAsked(const std::shared_ptr<StreamProgress>& progress,
                std::shared_ptr<AskedStream> stream, std::uint64_t mark, Completion completion);
  // The same for a record, whose event stays its own.
  void AddRecord(const std::shared_ptr<StreamProgress>& progress, std::uint64_t mark,
                 std::shared_ptr<EventRecordState> record);

  // --- The receiving thread is awake anyway: while it is, it looks at the device
  // itself, between two frames, which spares a change of threads and keeps two
  // threads from meeting in the driver. The completer's thread then only watches
  // that it does: it may hang in a call of the driver.

  // Does what is due, unless the last look was less than `interval` ago. Cheap when nothing is
  // pending.
  void Help(std::chrono::nanoseconds interval);
  // Does what is due, and returns when nothing is half done by the other thread either: then the
  // lanes say what the device had completed when this was called.
  void PollNow();
  // The receiving thread goes to sleep, or is back: the completer's thread looks meanwhile.
  void HelperSleeps();
  void HelperIsBack() { helper_awake_.store(true, std::memory_order_relaxed); }

  // What kernels printed before now, as far as the device is known to be done, goes to the client.
  // Any thread with the device's context.
  void FlushOutput() { KernelOutput::Flush(driver_, complete_); }

  // Whether the client waits for something that is pending: anything but how far streams are.
  bool urgent() const { return urgent_entries_.load(std::memory_order_relaxed) != 0; }
  // Chunks pushed so far.
  std::uint64_t pushed() const { return pushed_.load(std::memory_order_acquire); }
  // Chunks were handed to the device that are not pushed yet.
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
  struct Look {
    bool changed;  // Something urgent came or went.
    bool pending;  // What is left: anything,
    bool urgent;   // and something urgent.
  };
  Look Round();
  // Sleeps until something urgent arrives (or anything, when nothing is pending), at most for
  // `limit`.
  void Sleep(std::chrono::microseconds limit);
  void TakeArrivals() CUSPAN_REQUIRES(looking_);
  // Finds what is complete: pushes chunks and gives slots back, and leaves the rest in `reports`.
  void Sweep(std::vector<Report>& reports) CUSPAN_REQUIRES(looking_);
  void Tell(std::vector<Report>& reports);
  void Push(const SendChunk& chunk, CUresult result) CUSPAN_REQUIRES(looking_);
  CUresult Query(const StreamProgress::Entry& entry);

  const Driver& driver_;
  Channel& channel_;
  Faults& faults_;
  const WaitStages stages_ = WaitStages::ForThisMachine();

  Mutex mutex_;
  std::condition_variable arrived_;
  std::vector<Arrival> arrivals_ CUSPAN_GUARDED_BY(mutex_);
  bool urgent_arrival_ CUSPAN_GUARDED_BY(mutex_) = false;
  bool sleeping_ CUSPAN_GUARDED_BY(mutex_) = false;
  // Only something urgent ends the sleep, and that only without helper.
  bool napping_ CUSPAN_GUARDED_BY(mutex_) = false;
  // The helper sleeps, and something is pending.
  bool take_over_ CUSPAN_GUARDED_BY(mutex_) = false;
  std::atomic<bool> have_arrivals_ = false;
  std::atomic<bool> ending_ = false;

  std::atomic<bool> helper_awake_ = false;
  std::atomic<std::uint64_t> rounds_ = 0;
  // All entries that arrived and did not yet go, and the urgent ones among them.
  std::atomic<std::size_t> entries_ = 0;
  std::atomic<std::size_t> urgent_entries_ = 0;
  std::chrono::steady_clock::time_point last_help_;  // Of the helper.

  Mutex looking_;  // Of the thread that looks.
  std::vector<Report> found_ CUSPAN_GUARDED_BY(looking_);
  std::vector<Report> later_ CUSPAN_GUARDED_BY(looking_);
  std::vector<Arrival> taken_ CUSPAN_GUARDED_BY(looking_);
  // Lanes with entries.
  std::vector<std::shared_ptr<StreamProgress>> active_ CUSPAN_GUARDED_BY(looking_);
  std::size_t pending_chunks_ CUSPAN_GUARDED_BY(looking_) = 0;
  // Entries that are no progress marks: how many are pending, came and went.
  std::size_t urgent_ CUSPAN_GUARDED_BY(looking_) = 0;
  std::uint64_t urgent_changes_ CUSPAN_GUARDED_BY(looking_) = 0;

  std::atomic<std::uint64_t> pushed_ = 0;
  std::atomic<std::uint64_t> unpushed_ = 0;
  const CUevent complete_;  // Recorded before all work.
  std::thread thread_;
};

}  // namespace cuspan::proxy

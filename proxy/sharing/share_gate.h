// One session's part in sharing a GPU with other runs. It submits work to the driver only while its
// run has the time slice. It limits the amount in flight: others must not wait long for the GPU.
//
// While no other run shares the GPU, and the run has no limit, ops bypass the gate, and it only
// measures the times of kernels.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <thread>

#include "common/scheduling/pairs.h"
#include "protocol/sharing/share_slot.h"
#include "proxy/objects/code.h"
#include "proxy/objects/graph.h"
#include "proxy/objects/kernel_time.h"
#include "proxy/sharing/session_swap.h"
#include "proxy/sharing/shared_device.h"
#include "proxy/streams/queues.h"
#include "proxy/streams/roles.h"
#include "proxy/streams/stream.h"

namespace cuspan::proxy {

// Predicted time of work (ns); known: measured alone on the GPU.
struct PredictedWork {
  double nanoseconds = 0;
  bool known = false;
  scheduling::Limits limits = scheduling::Limits::kUnknown;

  void Add(const PredictedWork& more) {
    if (nanoseconds == 0)
      limits = more.limits;
    else if (limits != more.limits)
      limits = scheduling::Limits::kUnknown;
    nanoseconds += more.nanoseconds;
    known = known && more.known;
  }
};

// The rest of an op submitted in parts; it holds its stream meanwhile.
class GatedRest {
 public:
  virtual ~GatedRest() = default;
  // Submits the next part; true if it was the last one.
  virtual bool Next() CUSPAN_REQUIRES(receiving_thread) = 0;
  virtual StreamQueue& queue() CUSPAN_REQUIRES(receiving_thread) = 0;
};

// Threads: the receiving thread, except for functions marked otherwise.
class ShareGate final : public WorkGate {
 public:
  // The device must outlive it.
  ShareGate(SharedDevice& device, std::unique_ptr<ShareSlot> slot);
  ~ShareGate() override;

  // True if the session may have work on the GPU. Threads: any.
  bool MayHaveWork() const { return !slot_->gated() || slot_->on_gpu(); }
  // True if work has to pass the gate, as last noticed by this thread.
  bool sharing() const CUSPAN_REQUIRES(receiving_thread) { return sharing_; }

  // Enables swapping: for its memory or for that of others. Call before the first op.
  void MaySwap(ShareMemory& memory) CUSPAN_REQUIRES(receiving_thread) {
    swap_ = std::make_unique<SessionSwap>(device_, *slot_, memory);
  }

  // --- For ops, while sharing()

  bool MayStart() CUSPAN_REQUIRES(receiving_thread) override;
  // Predicted time of a launch.
  PredictedWork Predict(const KernelTime& time, std::uint64_t blocks) const
      CUSPAN_REQUIRES(receiving_thread);
  // True if the bottleneck of kernels matters.
  bool pairs() const { return pairs_; }
  // True if launches may be submitted in batches.
  bool MayBatch(const KernelTime& time, std::uint64_t blocks) const
      CUSPAN_REQUIRES(receiving_thread);
  // True if a launch with this predicted time (ns) should be submitted in slices.
  bool WantsSlices(double nanoseconds) const CUSPAN_REQUIRES(receiving_thread);
  // The rest of an op after its first part was submitted; precedes all other work.
  void Continue(std::unique_ptr<GatedRest> rest) CUSPAN_REQUIRES(receiving_thread) {
    rests_.push_back(std::move(rest));
  }
  // Called after submitting work to `stream` and recording it there (SessionStreams::Submitted).
  void Started(const std::shared_ptr<Stream>& stream, const PredictedWork& work)
      CUSPAN_REQUIRES(receiving_thread);

  // A launch being measured; empty if not measured.
  struct Sample {
    PooledEvent begin;
    std::uint32_t pairings = 0;
  };
  Sample BeginSample(KernelTime& time, Stream& stream) CUSPAN_REQUIRES(receiving_thread);
  void EndSample(Sample sample, const std::shared_ptr<KernelTime>& time, std::uint64_t blocks,
                 const std::shared_ptr<Stream>& stream) CUSPAN_REQUIRES(receiving_thread);

  // --- For the loop

  // True if GoOn has work to do. Cheap.
  bool MayGoOn() const CUSPAN_REQUIRES(receiving_thread);
  // Reacts to completed work and to the table's state, and releases waiting work.
  void GoOn() CUSPAN_REQUIRES(receiving_thread);
  // Call before the thread sleeps: no more ops are pending. Returns the maximum time to sleep.
  std::chrono::nanoseconds Settle() CUSPAN_REQUIRES(receiving_thread);
  // True if work waits for the run's time slice, or for its memory.
  bool AwaitsTimeSlice() const CUSPAN_REQUIRES(receiving_thread) {
    return (WorkWaits() && !slot_->open()) || (swap_ != nullptr && swap_->KeepsFrames());
  }
  // True if the memory is present, for operations using it directly, not through the queues.
  bool MemoryIsThere() const CUSPAN_REQUIRES(receiving_thread) {
    return swap_ == nullptr || !swap_->out();
  }
  bool MayTake() CUSPAN_REQUIRES(receiving_thread) { return swap_ == nullptr || swap_->MayTake(); }
  // The stream is about to be destroyed in the driver.
  void Leaves(const Stream& stream) CUSPAN_REQUIRES(receiving_thread);
  // The device is lost; no more work follows.
  void Lost() CUSPAN_REQUIRES(receiving_thread);
  // The session has ended. Publishes this at once, before others detect the process's end: it is
  // idle, and releases its slot.
  void End() CUSPAN_REQUIRES(receiving_thread);
  void Leave() CUSPAN_REQUIRES(receiving_thread) { slot_->Leave(); }

 private:
  // Work submitted to one stream before one completion event.
  struct Group {
    double nanoseconds = 0;
    double known = 0;  // Measured part of it.
    std::atomic<bool> done = false;
  };

  bool WorkWaits() const CUSPAN_REQUIRES(receiving_thread) { return refused_ || !rests_.empty(); }
  bool SomeWaits() const CUSPAN_REQUIRES(receiving_thread) {
    return WorkWaits() || (swap_ != nullptr && swap_->wants_memory());
  }
  // True if the run may use the GPU, apart from other reasons for waiting.
  bool HasTimeSlice() const CUSPAN_REQUIRES(receiving_thread) {
    return !sharing_ || stuck_ || slot_->open();
  }
  void GoOnWithSwap() CUSPAN_REQUIRES(receiving_thread);
  bool MayPass() CUSPAN_REQUIRES(receiving_thread);
  void ContinueRests() CUSPAN_REQUIRES(receiving_thread);
  bool TimeSliceMayBeOver() const CUSPAN_REQUIRES(receiving_thread);
  double Remaining(std::uint64_t now) const CUSPAN_REQUIRES(receiving_thread);
  double Budget() const CUSPAN_REQUIRES(receiving_thread);
  double Lead() const CUSPAN_REQUIRES(receiving_thread);
  bool DepthAllows(std::uint64_t now) const CUSPAN_REQUIRES(receiving_thread);
  std::uint64_t NextDecision() const CUSPAN_REQUIRES(receiving_thread);
  std::uint64_t NextTime() const CUSPAN_REQUIRES(receiving_thread);
  void BeginSharing() CUSPAN_REQUIRES(receiving_thread);
  void EndSharing() CUSPAN_REQUIRES(receiving_thread);
  void MarkUnmarked() CUSPAN_REQUIRES(receiving_thread);
  void Watch(std::shared_ptr<Group> group) CUSPAN_REQUIRES(receiving_thread);
  void TraceTimeSlice() CUSPAN_REQUIRES(receiving_thread);
  void TraceChange(std::uint64_t begin) CUSPAN_REQUIRES(receiving_thread);
  void NoteKnown(const PredictedWork& work) CUSPAN_REQUIRES(receiving_thread);
  void RemoveDone(std::uint64_t now) CUSPAN_REQUIRES(receiving_thread);
  void PublishDone(std::uint64_t now) CUSPAN_REQUIRES(receiving_thread);
  void Decide() CUSPAN_REQUIRES(receiving_thread);
  void WatchTable();

  SharedDevice& device_;
  const std::unique_ptr<ShareSlot> slot_;
  const bool pairs_;
  bool sharing_ CUSPAN_GUARDED_BY(receiving_thread) = false;  // Work has to pass the gate.
  // The last change of the table failed.
  bool stuck_ CUSPAN_GUARDED_BY(receiving_thread) = false;
  std::uint64_t decided_at_ CUSPAN_GUARDED_BY(receiving_thread) = 0;
  bool wants_ CUSPAN_GUARDED_BY(receiving_thread) = false;    // Last published value.
  bool refused_ CUSPAN_GUARDED_BY(receiving_thread) = false;  // Some work waits for this gate.
  bool asked_ CUSPAN_GUARDED_BY(receiving_thread) = false;    // Its waiting state was published.
  std::deque<std::unique_ptr<GatedRest>> rests_ CUSPAN_GUARDED_BY(receiving_thread);
  std::unique_ptr<SessionSwap> swap_ CUSPAN_GUARDED_BY(receiving_thread);  // Null without swapping.
  bool coming_ CUSPAN_GUARDED_BY(receiving_thread) = false;                // Last published value.
  std::deque<std::shared_ptr<Group>> on_gpu_ CUSPAN_GUARDED_BY(receiving_thread);
  double on_gpu_nanoseconds_ CUSPAN_GUARDED_BY(receiving_thread) = 0;
  std::uint64_t front_since_ CUSPAN_GUARDED_BY(receiving_thread) =
      0;  // Earliest start of the first of them.
  std::shared_ptr<Stream> unmarked_stream_ CUSPAN_GUARDED_BY(receiving_thread);
  double unmarked_ CUSPAN_GUARDED_BY(receiving_thread) = 0;
  double unmarked_known_ CUSPAN_GUARDED_BY(receiving_thread) = 0;
  double last_work_ CUSPAN_GUARDED_BY(receiving_thread) = 0;
  // Recent work, and its measured part: the table gets this ratio as `known`.
  double lately_ CUSPAN_GUARDED_BY(receiving_thread) = 0;
  double lately_known_ CUSPAN_GUARDED_BY(receiving_thread) = 0;
  double lately_compute_ CUSPAN_GUARDED_BY(receiving_thread) = 0;
  double lately_memory_ CUSPAN_GUARDED_BY(receiving_thread) = 0;  // Memory-bound part.
  double done_work_ CUSPAN_GUARDED_BY(receiving_thread) = 0;      // Total of measured work.
  // The run's access to the GPU as last traced, and since when.
  enum class Having { kNot, kAlone, kPaired };
  Having having_ CUSPAN_GUARDED_BY(receiving_thread) = Having::kNot;
  std::uint64_t having_since_ CUSPAN_GUARDED_BY(receiving_thread) = 0;
  std::uint64_t changes_seen_ CUSPAN_GUARDED_BY(receiving_thread) = 0;
  std::uint32_t rings_seen_ CUSPAN_GUARDED_BY(receiving_thread) = 0;
  std::uint32_t done_seen_ CUSPAN_GUARDED_BY(receiving_thread) = 0;

  std::atomic<std::uint32_t> done_ = 0;  // Completed groups; threads: any.
  std::atomic<bool> ending_ = false;
  std::thread watcher_;
};

}  // namespace cuspan::proxy

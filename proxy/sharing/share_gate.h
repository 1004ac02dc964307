// Decides when a session's work is submitted to a GPU shared with other runs: only while its run
// has the time slice, alone or in a pair. It limits the predicted time of submitted, incomplete
// work, so that other runs do not wait long for the GPU.
//
// While the run is alone on the GPU and has no quota, ops bypass the gate. It then still measures
// the times of kernels, and swaps memory.
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

// Predicted GPU time of work (ns). `known`: the times of its kernels were measured while the run
// was alone on the GPU. `bottleneck`: of its kernels. A sum begins with {0, true}.
struct PredictedWork {
  double nanoseconds = 0;
  bool known = false;
  scheduling::Bottleneck bottleneck = scheduling::Bottleneck::kUnknown;

  void Add(const PredictedWork& more) {
    if (nanoseconds == 0)
      bottleneck = more.bottleneck;
    else if (bottleneck != more.bottleneck)
      bottleneck = scheduling::Bottleneck::kUnknown;
    nanoseconds += more.nanoseconds;
    known = known && more.known;
  }
};

// The parts of an op not submitted yet. The op holds its stream until the last part is submitted.
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
  // True if work has to pass the gate. Updated by GoOn.
  bool sharing() const CUSPAN_REQUIRES(receiving_thread) { return sharing_; }

  // Enables swapping of this session's memory, and waiting for memory freed by other runs. Call
  // before the first op.
  void MaySwap(ShareMemory& memory) CUSPAN_REQUIRES(receiving_thread) {
    swap_ = std::make_unique<SessionSwap>(device_, *slot_, memory);
  }

  // --- For ops, only while sharing(), except BeginSample and EndSample.

  // True if the next work may be submitted. If not, it waits until GoOn releases it.
  bool MayStart() CUSPAN_REQUIRES(receiving_thread) override;
  // Predicted time of a launch.
  PredictedWork Predict(const KernelTime& time, std::uint64_t blocks) const
      CUSPAN_REQUIRES(receiving_thread);
  // True if the run shares the GPU in pairs: the bottlenecks of its kernels are then needed.
  bool pairs() const { return pairs_; }
  // True if a full batch of such launches fits the budget.
  bool MayBatch(const KernelTime& time, std::uint64_t blocks) const
      CUSPAN_REQUIRES(receiving_thread);
  // True if a launch of this predicted time (ns) should be split into several launches of fewer
  // blocks, so that another run can preempt it.
  bool WantsSlices(double nanoseconds) const CUSPAN_REQUIRES(receiving_thread);
  // Takes the rest of an op after its first part was submitted. It is submitted before all other
  // work.
  void Continue(std::unique_ptr<GatedRest> rest) CUSPAN_REQUIRES(receiving_thread) {
    rests_.push_back(std::move(rest));
  }
  // Called after work was submitted to `stream` and counted by SessionStreams::Submitted.
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

  // --- For the loop of the receiving thread (server.cc)

  // True if GoOn has work to do. Cheap.
  bool MayGoOn() const CUSPAN_REQUIRES(receiving_thread);
  // Reacts to completed work and to the table's state, and releases waiting work.
  void GoOn() CUSPAN_REQUIRES(receiving_thread);
  // Call before the thread sleeps, when no op is left to submit. Requests the completion event of
  // the last work. Returns the maximum time to sleep.
  std::chrono::nanoseconds Settle() CUSPAN_REQUIRES(receiving_thread);
  // True if the client's frames should stay in the ring: their work would only wait, for the time
  // slice or for memory swapped out.
  bool AwaitsTimeSlice() const CUSPAN_REQUIRES(receiving_thread) {
    return (WorkWaits() && !slot_->open()) || (swap_ != nullptr && swap_->KeepsFrames());
  }
  // True if the memory is present, for operations using it directly, not through the queues.
  bool MemoryIsThere() const CUSPAN_REQUIRES(receiving_thread) {
    return swap_ == nullptr || !swap_->out();
  }
  // True if a frame needing memory may be taken from the ring. If not, requests the time slice.
  bool MayTakeFrame() CUSPAN_REQUIRES(receiving_thread) {
    return swap_ == nullptr || swap_->MayTakeFrame();
  }
  // The stream is about to be destroyed in the driver.
  void StreamEnds(const Stream& stream) CUSPAN_REQUIRES(receiving_thread);
  // The device is lost; no more work follows.
  void Lost() CUSPAN_REQUIRES(receiving_thread);
  // The session has ended: publishes at once that it is idle.
  void End() CUSPAN_REQUIRES(receiving_thread);
  // Releases the slot, before others detect the end of the process. The last call.
  void ReleaseSlot() CUSPAN_REQUIRES(receiving_thread) { slot_->Leave(); }

 private:
  // Work with one completion event: of one stream, or all work submitted before sharing began.
  struct Group {
    double nanoseconds = 0;
    double known_nanoseconds = 0;  // Measured part of it.
    std::atomic<bool> done = false;
  };

  bool WorkWaits() const CUSPAN_REQUIRES(receiving_thread) { return refused_ || !rests_.empty(); }
  bool SomeWaits() const CUSPAN_REQUIRES(receiving_thread) {
    return WorkWaits() || (swap_ != nullptr && swap_->wants_memory());
  }
  // True if no time slice is needed, or the run has it.
  bool HasTimeSlice() const CUSPAN_REQUIRES(receiving_thread) {
    return !sharing_ || stuck_ || slot_->open();
  }
  void GoOnWithSwap() CUSPAN_REQUIRES(receiving_thread);
  bool MayPass() CUSPAN_REQUIRES(receiving_thread);
  void ContinueRests() CUSPAN_REQUIRES(receiving_thread);
  bool TimeSliceMayBeOver() const CUSPAN_REQUIRES(receiving_thread);
  double Remaining(std::uint64_t now) const CUSPAN_REQUIRES(receiving_thread);
  // Maximum predicted time (ns) of incomplete work.
  double Budget() const CUSPAN_REQUIRES(receiving_thread);
  // More work is submitted in any case if less than this (ns) is incomplete.
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
  // Main function of watcher_: wakes the receiving thread when the table rings.
  void WatchTable();

  SharedDevice& device_;
  const std::unique_ptr<ShareSlot> slot_;
  const bool pairs_;
  bool sharing_ CUSPAN_GUARDED_BY(receiving_thread) = false;  // Work has to pass the gate.
  // The last decision on the table failed: work passes without time slices.
  bool stuck_ CUSPAN_GUARDED_BY(receiving_thread) = false;
  std::uint64_t decided_at_ CUSPAN_GUARDED_BY(receiving_thread) = 0;
  bool wants_ CUSPAN_GUARDED_BY(receiving_thread) = false;    // Published: the session has work.
  bool refused_ CUSPAN_GUARDED_BY(receiving_thread) = false;  // MayStart has refused work.
  // A decision was made since work began to wait.
  bool asked_ CUSPAN_GUARDED_BY(receiving_thread) = false;
  std::deque<std::unique_ptr<GatedRest>> rests_ CUSPAN_GUARDED_BY(receiving_thread);
  std::unique_ptr<SessionSwap> swap_ CUSPAN_GUARDED_BY(receiving_thread);  // Null without swapping.
  bool coming_ CUSPAN_GUARDED_BY(receiving_thread) =
      false;  // Published: its memory is being swapped in.
  std::deque<std::shared_ptr<Group>> on_gpu_ CUSPAN_GUARDED_BY(receiving_thread);
  double on_gpu_nanoseconds_ CUSPAN_GUARDED_BY(receiving_thread) = 0;
  // Earliest start of the first group in on_gpu_.
  std::uint64_t front_since_ CUSPAN_GUARDED_BY(receiving_thread) = 0;
  // Work (ns) submitted to unmarked_stream_ without a completion event yet, and its measured part.
  std::shared_ptr<Stream> unmarked_stream_ CUSPAN_GUARDED_BY(receiving_thread);
  double unmarked_ CUSPAN_GUARDED_BY(receiving_thread) = 0;
  double unmarked_known_ CUSPAN_GUARDED_BY(receiving_thread) = 0;
  // Predicted time (ns) of the last work.
  double last_work_ CUSPAN_GUARDED_BY(receiving_thread) = 0;
  // Recent work (ns), and its measured part. If that is large enough, the table gets `known`.
  double lately_ CUSPAN_GUARDED_BY(receiving_thread) = 0;
  double lately_known_ CUSPAN_GUARDED_BY(receiving_thread) = 0;
  double lately_compute_ CUSPAN_GUARDED_BY(receiving_thread) = 0;
  double lately_memory_ CUSPAN_GUARDED_BY(receiving_thread) = 0;  // Memory-bound part.
  double done_work_ CUSPAN_GUARDED_BY(receiving_thread) = 0;  // Total of completed measured work.
  // The run's access to the GPU as last traced, and since when.
  enum class Access { kNone, kAlone, kPaired };
  Access access_ CUSPAN_GUARDED_BY(receiving_thread) = Access::kNone;
  std::uint64_t access_since_ CUSPAN_GUARDED_BY(receiving_thread) = 0;
  // Values at the last GoOn.
  std::uint64_t changes_seen_ CUSPAN_GUARDED_BY(receiving_thread) = 0;
  std::uint32_t rings_seen_ CUSPAN_GUARDED_BY(receiving_thread) = 0;
  std::uint32_t done_seen_ CUSPAN_GUARDED_BY(receiving_thread) = 0;

  std::atomic<std::uint32_t> done_ = 0;  // Completed groups; threads: any.
  std::atomic<bool> ending_ = false;
  std::thread watcher_;
};

}  // namespace cuspan::proxy

// One session's part in sharing its GPU with other runs: it hands work to the driver only when its
// run has the turn, and of it only so much that others do not wait long for the GPU.
//
// While no other run shares the GPU, and the run has no limit, ops do not come to the gate, and it
// only learns how long kernels take.
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

// How long work should take (ns); known: as it was seen to take alone.
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

// The rest of an op that is handed over in parts, and holds its stream meanwhile.
class GatedRest {
 public:
  virtual ~GatedRest() = default;
  // Hands over the next part; whether that was the last one.
  virtual bool Next() CUSPAN_REQUIRES(receiving_thread) = 0;
  virtual StreamQueue& queue() CUSPAN_REQUIRES(receiving_thread) = 0;
};

// Threads: the receiving thread, but for what is said to be another's.
class ShareGate final : public WorkGate {
 public:
  // The device outlives it.
  ShareGate(SharedDevice& device, std::unique_ptr<ShareSlot> slot);
  ~ShareGate() override;

  // Whether the session may have work on the GPU. Any thread.
  bool MayHaveWork() const { return !slot_->gated() || slot_->on_gpu(); }
  // Whether that is not so, as far as the session has noticed.
  bool sharing() const CUSPAN_REQUIRES(receiving_thread) { return sharing_; }

  // Others may have to make room for its memory, or it for theirs. Before the first op.
  void MaySwap(ShareMemory& memory) CUSPAN_REQUIRES(receiving_thread) {
    swap_ = std::make_unique<SessionSwap>(device_, *slot_, memory);
  }

  // --- For ops, while that is so.

  bool MayStart() CUSPAN_REQUIRES(receiving_thread) override;
  // How long that should take.
  PredictedWork Predict(const KernelTime& time, std::uint64_t blocks) const
      CUSPAN_REQUIRES(receiving_thread);
  // Whether it matters what limits kernels.
  bool pairs() const { return pairs_; }
  // Whether launches may be handed over many at a time.
  bool MayBatch(const KernelTime& time, std::uint64_t blocks) const
      CUSPAN_REQUIRES(receiving_thread);
  // Whether a launch that should take so long (ns) had better be handed over in slices.
  bool WantsSlices(double nanoseconds) const CUSPAN_REQUIRES(receiving_thread);
  // The rest of an op, whose first part has been handed over: it goes on before all other work.
  void Continue(std::unique_ptr<GatedRest> rest) CUSPAN_REQUIRES(receiving_thread) {
    rests_.push_back(std::move(rest));
  }
  // Work that should take so long has been handed over in `stream`, and noted there
  // (SessionStreams::Submitted).
  void Started(const std::shared_ptr<Stream>& stream, const PredictedWork& work)
      CUSPAN_REQUIRES(receiving_thread);

  // A launch that is measured; empty where it is not.
  struct Sample {
    PooledEvent begin;
    std::uint32_t pairings = 0;
  };
  Sample BeginSample(KernelTime& time, Stream& stream) CUSPAN_REQUIRES(receiving_thread);
  void EndSample(Sample sample, const std::shared_ptr<KernelTime>& time, std::uint64_t blocks,
                 const std::shared_ptr<Stream>& stream) CUSPAN_REQUIRES(receiving_thread);

  // --- For the loop.

  // Whether there is something for GoOn. Cheap.
  bool MayGoOn() const CUSPAN_REQUIRES(receiving_thread);
  // Takes notice of what is done and of what the table says, and lets work go.
  void GoOn() CUSPAN_REQUIRES(receiving_thread);
  // No more ops come just now. To be called before the thread sleeps, for no longer than this.
  std::chrono::nanoseconds Settle() CUSPAN_REQUIRES(receiving_thread);
  // Work waits for the run's turn, or for its memory.
  bool AwaitsTimeSlice() const CUSPAN_REQUIRES(receiving_thread) {
    return (WorkWaits() && !slot_->open()) || (swap_ != nullptr && swap_->KeepsFrames());
  }
  // Whether the memory is there for what uses it at once, and not through the queues.
  bool MemoryIsThere() const CUSPAN_REQUIRES(receiving_thread) {
    return swap_ == nullptr || !swap_->out();
  }
  bool MayTake() CUSPAN_REQUIRES(receiving_thread) { return swap_ == nullptr || swap_->MayTake(); }
  // The stream is about to be destroyed in the driver.
  void Leaves(const Stream& stream) CUSPAN_REQUIRES(receiving_thread);
  // The device is lost, and nothing more comes.
  void Lost() CUSPAN_REQUIRES(receiving_thread);
  // The session is over, and others need not find that out by its process's end: it has nothing to
  // do any more, and leaves.
  void End() CUSPAN_REQUIRES(receiving_thread);
  void Leave() CUSPAN_REQUIRES(receiving_thread) { slot_->Leave(); }

 private:
  // What was handed over in one stream behind one mark.
  struct Group {
    double nanoseconds = 0;
    double known = 0;  // Of that.
    std::atomic<bool> done = false;
  };

  bool WorkWaits() const CUSPAN_REQUIRES(receiving_thread) { return refused_ || !rests_.empty(); }
  bool SomeWaits() const CUSPAN_REQUIRES(receiving_thread) {
    return WorkWaits() || (swap_ != nullptr && swap_->wished());
  }
  // The run may use the GPU, whatever else may hold it up.
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
  std::uint64_t NextLook() const CUSPAN_REQUIRES(receiving_thread);
  std::uint64_t NextTime() const CUSPAN_REQUIRES(receiving_thread);
  void BeginSharing() CUSPAN_REQUIRES(receiving_thread);
  void EndSharing() CUSPAN_REQUIRES(receiving_thread);
  void MarkUnmarked() CUSPAN_REQUIRES(receiving_thread);
  void Watch(std::shared_ptr<Group> group) CUSPAN_REQUIRES(receiving_thread);
  void TraceTimeSlice() CUSPAN_REQUIRES(receiving_thread);
  void TraceChange(std::uint64_t begin) CUSPAN_REQUIRES(receiving_thread);
  void NoteKnown(const PredictedWork& work) CUSPAN_REQUIRES(receiving_thread);
  void TakeDone(std::uint64_t now) CUSPAN_REQUIRES(receiving_thread);
  void TellWhatIsDone(std::uint64_t now) CUSPAN_REQUIRES(receiving_thread);
  void Decide() CUSPAN_REQUIRES(receiving_thread);
  void WatchTable();

  SharedDevice& device_;
  const std::unique_ptr<ShareSlot> slot_;
  const bool pairs_;
  bool sharing_ CUSPAN_GUARDED_BY(receiving_thread) = false;  // Work has to pass.
  bool stuck_ CUSPAN_GUARDED_BY(receiving_thread) = false;    // The table could not be changed.
  std::uint64_t decided_at_ CUSPAN_GUARDED_BY(receiving_thread) = 0;
  bool wants_ CUSPAN_GUARDED_BY(receiving_thread) = false;    // As published.
  bool refused_ CUSPAN_GUARDED_BY(receiving_thread) = false;  // Some work waits for this gate.
  bool asked_ CUSPAN_GUARDED_BY(receiving_thread) = false;    // The table knows that it waits.
  std::deque<std::unique_ptr<GatedRest>> rests_ CUSPAN_GUARDED_BY(receiving_thread);
  std::unique_ptr<SessionSwap> swap_
      CUSPAN_GUARDED_BY(receiving_thread);                   // None where memory stays where it is.
  bool coming_ CUSPAN_GUARDED_BY(receiving_thread) = false;  // As published.
  std::deque<std::shared_ptr<Group>> on_gpu_ CUSPAN_GUARDED_BY(receiving_thread);
  double on_gpu_nanoseconds_ CUSPAN_GUARDED_BY(receiving_thread) = 0;
  std::uint64_t front_since_ CUSPAN_GUARDED_BY(receiving_thread) =
      0;  // When the first of them began, at the earliest.
  std::shared_ptr<Stream> unmarked_stream_ CUSPAN_GUARDED_BY(receiving_thread);
  double unmarked_ CUSPAN_GUARDED_BY(receiving_thread) = 0;
  double unmarked_known_ CUSPAN_GUARDED_BY(receiving_thread) = 0;
  double last_work_ CUSPAN_GUARDED_BY(receiving_thread) = 0;
  // Of the work of lately, and of that what was known, by which the table is told that it is.
  double lately_ CUSPAN_GUARDED_BY(receiving_thread) = 0;
  double lately_known_ CUSPAN_GUARDED_BY(receiving_thread) = 0;
  double lately_compute_ CUSPAN_GUARDED_BY(receiving_thread) = 0;
  double lately_memory_ CUSPAN_GUARDED_BY(receiving_thread) = 0;  // Limited so.
  double done_work_ CUSPAN_GUARDED_BY(receiving_thread) = 0;      // Known, in all.
  // Of a traced run: how it has the GPU, as noted last, and since when.
  enum class Having { kNot, kAlone, kPaired };
  Having having_ CUSPAN_GUARDED_BY(receiving_thread) = Having::kNot;
  std::uint64_t having_since_ CUSPAN_GUARDED_BY(receiving_thread) = 0;
  std::uint64_t changes_seen_ CUSPAN_GUARDED_BY(receiving_thread) = 0;
  std::uint32_t rings_seen_ CUSPAN_GUARDED_BY(receiving_thread) = 0;
  std::uint32_t done_seen_ CUSPAN_GUARDED_BY(receiving_thread) = 0;

  std::atomic<std::uint32_t> done_ = 0;  // Groups; any thread.
  std::atomic<bool> ending_ = false;
  std::thread watcher_;
};

}  // namespace cuspan::proxy

#include "proxy/sharing/share_gate.h"

#include <algorithm>
#include <utility>

#include "common/format.h"
#include "common/log.h"
#include "common/scheduling/time_slices.h"
#include "common/trace.h"

namespace cuspan::proxy {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// Maximum predicted work on the GPU in ns: while a run of higher priority may preempt, because it
// has to wait for this work; and otherwise.
constexpr double kPreemptibleBudget = 200'000;
constexpr double kWorkBudget = 1'000'000;
// If less work (ns) remains, more is submitted in any case, to keep the GPU busy; again for both
// cases. With several kernels queued a GPU takes longer to switch to another run.
constexpr double kPreemptibleLead = 25'000;
constexpr double kWorkLead = 250'000;
// Time the thread wakes up early: sleeps end late.
constexpr std::uint64_t kAwakeBefore = 150'000;
// Assumed time of a kernel that was never measured, in ns. Only one such kernel is in flight.
constexpr double kUnknownWork = kPreemptibleBudget;
// A session's times are known if this part of its recent work was measured, and at least
// kMinKnown ns.
constexpr double kKnownPart = 0.9;
constexpr double kMinKnown = 1'000'000;
constexpr double kLately = 50'000'000;
// Part of the work needed to determine a session's bottleneck.
constexpr double kMaxPart = 0.6;
// Launches predicted to take longer are submitted in slices while more important runs exist.
constexpr double kLongLaunch = 1'000'000;
// Work with its own completion event, in ns. Less work shares the event of the following work.
constexpr double kWorthMark = 25'000;
// Time without access to a table after a failed change.
constexpr std::uint64_t kRetryStuck = 1'000'000'000;
constexpr std::uint64_t kNever = ~std::uint64_t{0};
constexpr nanoseconds kLongestGateSleep = std::chrono::seconds(10);
constexpr milliseconds kWatcherSleep{1'000'000};

}  // namespace

ShareGate::ShareGate(SharedDevice& device, std::unique_ptr<ShareSlot> slot)
    : device_(device),
      slot_(std::move(slot)),
      pairs_(slot_->terms().pair),
      rings_seen_(slot_->rings()) {
  watcher_ = std::thread([this] { WatchTable(); });
}

ShareGate::~ShareGate() {
  ending_ = true;
  slot_->RingSelf();
  watcher_.join();
}

// The receiving thread sleeps on its own bell; other processes ring only the table.
void ShareGate::WatchTable() {
  std::uint32_t seen = slot_->rings();
  while (!ending_) {
    seen = slot_->AwaitRing(seen, kWatcherSleep);
    device_.Wake();
  }
}

// --- Work

PredictedWork ShareGate::Predict(const KernelTime& time, std::uint64_t blocks) const {
  const std::optional<double> known = time.Predict(blocks);
  return {known.value_or(kUnknownWork), known.has_value()};
}

double ShareGate::Budget() const { return slot_->preemptible() ? kPreemptibleBudget : kWorkBudget; }

double ShareGate::Lead() const { return slot_->preemptible() ? kPreemptibleLead : kWorkLead; }

bool ShareGate::MayBatch(const KernelTime& time, std::uint64_t blocks) const {
  return Predict(time, blocks).nanoseconds * StreamQueues::kMaxInBatch <= Budget();
}

// Remaining work on the GPU in ns, from predictions.
double ShareGate::Remaining(std::uint64_t now) const {
  if (on_gpu_.empty()) return unmarked_;
  const double first = on_gpu_.front()->nanoseconds;
  const double passed = now > front_since_ ? static_cast<double>(now - front_since_) : 0;
  return on_gpu_nanoseconds_ - std::min(passed, first) + unmarked_;
}

bool ShareGate::DepthAllows(std::uint64_t now) const {
  if (on_gpu_.empty() && unmarked_ == 0) return true;
  const double remaining = Remaining(now);
  return remaining <= Lead() || remaining + last_work_ <= Budget();
}

bool ShareGate::TimeSliceMayBeOver() const {
  return !stuck_ && ShareSlot::Now() >= slot_->next_decision();
}

bool ShareGate::WantsSlices(double nanoseconds) const {
  return sharing_ && nanoseconds > kLongLaunch && slot_->preemptible();
}

bool ShareGate::MayPass() {
  if (slot_->open() ? TimeSliceMayBeOver() : !asked_) Decide();
  TraceTimeSlice();
  return (stuck_ || slot_->open()) && DepthAllows(ShareSlot::Now());
}

bool ShareGate::MayStart() {
  // Work already waiting goes first.
  if (WorkWaits()) {
    refused_ = true;
    return false;
  }
  if (!wants_) {
    wants_ = true;
    slot_->SetWants();
  }
  if (MayPass()) return true;
  refused_ = true;
  return false;
}

// Without other runs all parts are submitted at once.
void ShareGate::ContinueRests() {
  while (!rests_.empty() && !device_.queues().held() && (!sharing_ || MayPass())) {
    if (!rests_.front()->Next()) continue;
    const std::unique_ptr<GatedRest> done = std::move(rests_.front());
    rests_.pop_front();
    device_.queues().Release(done->queue());
  }
}

void ShareGate::NoteKnown(const PredictedWork& work) {
  lately_ += work.nanoseconds;
  if (work.known) lately_known_ += work.nanoseconds;
  slot_->SetKnown(lately_known_ >= kMinKnown && lately_known_ >= lately_ * kKnownPart);
  if (work.bottleneck == scheduling::Bottleneck::kCompute) lately_compute_ += work.nanoseconds;
  if (work.bottleneck == scheduling::Bottleneck::kMemory) lately_memory_ += work.nanoseconds;
  if (pairs_)
    slot_->SetBottleneck(lately_compute_ > lately_ * kMaxPart  ? scheduling::Bottleneck::kCompute
                         : lately_memory_ > lately_ * kMaxPart ? scheduling::Bottleneck::kMemory
                                                               : scheduling::Bottleneck::kUnknown);
  if (lately_ < kLately) return;
  for (double* const sum : {&lately_, &lately_known_, &lately_compute_, &lately_memory_}) *sum /= 2;
}

void ShareGate::Started(const std::shared_ptr<Stream>& stream, const PredictedWork& work) {
  const double nanoseconds = work.nanoseconds;
  NoteKnown(work);
  last_work_ = nanoseconds;
  if (unmarked_stream_ != nullptr && unmarked_stream_ != stream) MarkUnmarked();
  const bool first = on_gpu_.empty() && unmarked_ == 0;
  unmarked_stream_ = stream;
  unmarked_ += nanoseconds;
  if (work.known) unmarked_known_ += nanoseconds;
  if (first) {
    front_since_ = ShareSlot::Now();
    slot_->SetOnGpu(true, front_since_ + static_cast<std::uint64_t>(nanoseconds), front_since_);
  }
  if (unmarked_ >= kWorthMark) MarkUnmarked();
}

void ShareGate::Watch(std::shared_ptr<Group> group) {
  on_gpu_nanoseconds_ += group->nanoseconds;
  on_gpu_.push_back(std::move(group));
}

void ShareGate::MarkUnmarked() {
  if (unmarked_stream_ == nullptr) return;
  const std::shared_ptr<Stream> stream = std::exchange(unmarked_stream_, nullptr);
  auto group = std::make_shared<Group>();
  group->nanoseconds = std::exchange(unmarked_, 0);
  group->known_nanoseconds = std::exchange(unmarked_known_, 0);
  // Without a completion event this work is not tracked.
  if (device_.Mark(stream, [this, group](CUresult, std::uint64_t) {
        group->done.store(true, std::memory_order_relaxed);
        done_.fetch_add(1, std::memory_order_release);
        device_.Wake();
      }))
    Watch(group);
}

// --- Measuring

ShareGate::Sample ShareGate::BeginSample(KernelTime& time, Stream& stream) {
  Sample sample;
  // Read first: detects a partner arriving later.
  sample.pairings = slot_->pairings();
  if (!time.WantsSample() || (sharing_ && (!slot_->open() || slot_->paired()))) return sample;
  if (!device_.BeginTime(stream, &sample.begin)) return {};
  time.Sampled();
  return sample;
}

void ShareGate::EndSample(Sample sample, const std::shared_ptr<KernelTime>& time,
                          std::uint64_t blocks, const std::shared_ptr<Stream>& stream) {
  if (sample.begin.get() == nullptr) return;
  device_.EndTime(std::move(sample.begin), stream,
                  [this, time, blocks, pairings = sample.pairings](double nanoseconds) {
                    // Discards the time if a partner has arrived meanwhile: it is longer than
                    // alone.
                    if (slot_->pairings() == pairings) time->Add(blocks, nanoseconds);
                  });
}

// --- The loop

// Time of the next decision.
std::uint64_t ShareGate::NextDecision() const {
  if (!sharing_ || !wants_) return kNever;
  std::uint64_t next = slot_->next_decision();
  // Independent of the table: it may have lost this session's waiting state.
  if (!slot_->open()) next = std::min(next, decided_at_ + scheduling::kMaxDecisionInterval);
  if (stuck_) next = std::max(next, decided_at_ + kRetryStuck);
  return next;
}

std::uint64_t ShareGate::NextTime() const {
  std::uint64_t next = NextDecision();
  if (swap_ != nullptr) next = std::min(next, swap_->next_poll());
  if (!sharing_ || !(slot_->open() || stuck_) || !WorkWaits() || on_gpu_.empty()) return next;
  // The time when little enough work remains, if this is before the first completion.
  const double there = on_gpu_nanoseconds_ + unmarked_;
  const double wait = std::max(there - std::max(Lead(), Budget() - last_work_), 0.0);
  if (wait > on_gpu_.front()->nanoseconds) return next;
  return std::min(next, front_since_ + static_cast<std::uint64_t>(wait) + 1);
}

bool ShareGate::MayGoOn() const {
  if (slot_->rings() != rings_seen_ || slot_->gated() != sharing_ ||
      (WorkWaits() && !device_.queues().held() &&
       (!sharing_ || (on_gpu_.empty() && unmarked_ == 0 && slot_->open()))) ||
      done_.load(std::memory_order_acquire) != done_seen_)
    return true;
  if (swap_ != nullptr &&
      (swap_->MayGoOn(HasTimeSlice()) || (sharing_ && !wants_ && swap_->wants_memory())))
    return true;
  const std::uint64_t next = NextTime();
  return next != kNever && ShareSlot::Now() >= next;
}

// Without the table work passes without time slices: the driver also divides the GPU.
void ShareGate::Decide() {
  asked_ = wants_;
  if (stuck_ && ShareSlot::Now() < decided_at_ + kRetryStuck) return;
  decided_at_ = ShareSlot::Now();
  const Status decided = slot_->Decide();
  if (device_.traced()) TraceChange(decided_at_);
  if (!decided.ok() && !stuck_)
    LogWarn("{}; meanwhile the GPU is shared without time slices", decided.message());
  stuck_ = !decided.ok();
}

// Trace of time slices: one record for each period in which the session may submit, alone or beside
// another run, as noticed by this thread.
void ShareGate::TraceTimeSlice() {
  TraceBuffer* const buffer = Tracing();
  if (buffer == nullptr) return;
  const Access access = !sharing_ || !wants_ || !slot_->open() ? Access::kNone
                        : slot_->paired()                      ? Access::kPaired
                                                               : Access::kAlone;
  if (access == access_) return;
  const std::uint64_t now = TraceNow();
  if (access_ != Access::kNone) {
    TraceRecord record;
    record.begin = access_since_;
    record.end = now;
    record.SetName(access_ == Access::kPaired ? "in a pair" : "turn");
    record.kind = TraceKind::kTimeSlice;
    buffer->Add(record);
  }
  access_ = access;
  access_since_ = now;
}

// Traces a decision just made by this session.
void ShareGate::TraceChange(std::uint64_t begin) {
  TraceBuffer* const buffer = Tracing();
  const ShareSlot::Changes changes = slot_->changes();
  if (std::exchange(changes_seen_, changes.number) == changes.number || buffer == nullptr) return;
  TraceRecord record;
  record.begin = begin;
  record.end = TraceNow();
  record.SetName(Format("to a better pair: gain {:.2f} ms, cost {:.2f} ms", changes.gain / 1e6,
                        changes.cost / 1e6));
  record.kind = TraceKind::kTimeSlice;
  buffer->Add(record);
}

void ShareGate::BeginSharing() {
  sharing_ = true;
  device_.queues().SetWorkGate(this);
  // Work submitted before is counted as one group.
  wants_ = true;
  slot_->SetWants();
  auto group = std::make_shared<Group>();
  Watch(group);
  front_since_ = ShareSlot::Now();
  slot_->SetOnGpu(true, 0, front_since_);
  device_.MarkAll([this, group](CUresult, std::uint64_t) {
    group->done.store(true, std::memory_order_relaxed);
    done_.fetch_add(1, std::memory_order_release);
    device_.Wake();
  });
  Decide();
}

void ShareGate::EndSharing() {
  sharing_ = false;
  device_.queues().SetWorkGate(nullptr);
  on_gpu_.clear();
  on_gpu_nanoseconds_ = 0;
  unmarked_stream_ = nullptr;
  unmarked_ = unmarked_known_ = 0;
  wants_ = asked_ = coming_ = false;
  slot_->SetIdle(ShareSlot::Now());
}

void ShareGate::RemoveDone(std::uint64_t now) {
  done_seen_ = done_.load(std::memory_order_acquire);
  const Group* const front = on_gpu_.empty() ? nullptr : on_gpu_.front().get();
  std::erase_if(on_gpu_,
                [&](const std::shared_ptr<Group>& group) CUSPAN_REQUIRES(receiving_thread) {
                  if (!group->done.load(std::memory_order_relaxed)) return false;
                  on_gpu_nanoseconds_ -= group->nanoseconds;
                  done_work_ += group->known_nanoseconds;
                  return true;
                });
  slot_->SetDone(static_cast<std::uint64_t>(done_work_));
  if (on_gpu_.empty()) on_gpu_nanoseconds_ = 0;
  if (!on_gpu_.empty() && on_gpu_.front().get() != front) front_since_ = now;
}

// Publishes in the table if the GPU has completed this session's work.
void ShareGate::PublishDone(std::uint64_t now) {
  if (!wants_) return;
  if (!on_gpu_.empty() || unmarked_ != 0) {
    slot_->SetOnGpu(true, now + static_cast<std::uint64_t>(Remaining(now)), now);
    return;
  }
  if (SomeWaits()) {
    slot_->SetOnGpu(coming_, 0, now);
    // Other runs may be waiting for this.
    if (!slot_->open()) Decide();
    return;
  }
  wants_ = asked_ = false;
  TraceTimeSlice();
  slot_->SetIdle(now);
  if (slot_->some_wait()) Decide();
}

void ShareGate::GoOn() {
  TraceTimeSlice();
  rings_seen_ = slot_->rings();
  const bool changed = slot_->gated() != sharing_;
  if (changed) sharing_ ? EndSharing() : BeginSharing();
  const std::uint64_t now = ShareSlot::Now();
  const bool some_done = done_.load(std::memory_order_acquire) != done_seen_;
  if (some_done) RemoveDone(now);
  if (sharing_ && some_done) PublishDone(now);
  if (swap_ != nullptr) GoOnWithSwap();
  if (now >= NextDecision()) Decide();
  const bool may = !sharing_ || ((stuck_ || slot_->open()) && DepthAllows(now));
  if (!WorkWaits() || (!changed && !may)) return;
  asked_ = false;
  ContinueRests();
  if (!refused_ || !rests_.empty()) return;
  refused_ = false;
  device_.queues().LetWork();
}

// Work waiting for memory requests the time slice. While the memory is being swapped in, the run
// counts as using the GPU.
void ShareGate::GoOnWithSwap() {
  swap_->GoOn(HasTimeSlice(), rests_.size());
  if (!sharing_) return;
  if (!wants_ && swap_->wants_memory()) {
    wants_ = true;
    slot_->SetWants();
    Decide();
    swap_->GoOn(HasTimeSlice(), rests_.size());
  }
  const bool coming = swap_->coming() && slot_->open();
  if (std::exchange(coming_, coming) == coming || !on_gpu_.empty() || unmarked_ != 0) return;
  slot_->SetOnGpu(coming, 0, ShareSlot::Now());
}

nanoseconds ShareGate::Settle() {
  if (!sharing_ && swap_ == nullptr) return kLongestGateSleep;
  MarkUnmarked();
  // Work that failed at submission has no completion to wait for.
  if (sharing_ && wants_ && !SomeWaits() && on_gpu_.empty()) PublishDone(ShareSlot::Now());
  const std::uint64_t next = NextTime();
  if (next == kNever) return kLongestGateSleep;
  const std::uint64_t now = ShareSlot::Now();
  if (next <= now + kAwakeBefore) return nanoseconds(0);
  return nanoseconds(std::min<std::uint64_t>(next - now - kAwakeBefore, kLongestGateSleep.count()));
}

void ShareGate::StreamEnds(const Stream& stream) {
  if (unmarked_stream_.get() == &stream) MarkUnmarked();
}

void ShareGate::End() {
  wants_ = false;
  TraceTimeSlice();
  slot_->SetIdle(ShareSlot::Now());
  if (slot_->some_wait()) Decide();
}

void ShareGate::Lost() {
  refused_ = false;
  rests_.clear();
  if (swap_ != nullptr) swap_->End();
  if (sharing_) PublishDone(ShareSlot::Now());
}

}  // namespace cuspan::proxy

#include "common/scheduling/time_slices.h"

#include <algorithm>
#include <span>

namespace cuspan::scheduling {
namespace {

constexpr double kNanosecondsAMillisecond = 1e6;
// A run behind its quota by kMinOwed precedes all others. kMaxOwed limits its deficit,
// kMaxInHand its surplus.
constexpr double kMinOwed = kTimeSlice / 4.0;
constexpr double kMaxOwed = 10.0 * kTimeSlice;
constexpr double kMaxInHand = 2.0 * kTimeSlice;
// Maximum burst of a run with a limit. After exhausting it, the run starts again when kRoomToBegin
// is available.
constexpr double kMaxRoom = 2.0 * kTimeSlice;
constexpr double kRoomToBegin = kTimeSlice / 2.0;
// Maximum credit of a returning run for its idle time.
constexpr double kMaxCredit = kTimeSlice;
// Maximum time charged at once. After the deciding process was stopped, the time in between is
// unknown.
constexpr std::uint64_t kLongestAccount = 1'000'000'000;
constexpr double kWaitDecay = 1.0 / 8;
constexpr PriorityWeights kWeights;
// Minimum time of a pair's sample, in one or several parts. If three runs alternate, a pair is
// together for less than a time slice.
constexpr double kSampleTime = kTimeSlice;
// Minimum time of a sample as a multiple of the longest kernel: a kernel's work is credited at its
// end.
constexpr double kSampleKernels = 4;
// Maximum part of the sample's time in which either run may be off the GPU.
constexpr double kMaxIdle = 0.1;
// Fixed cost in ns of replacing a pair's second run, in addition to waiting for its work on the
// GPU.
constexpr double kFixedChange = 180'000;

class Decision {
 public:
  Decision(TimeSlices& slices, std::uint64_t now) : slices_(slices), now_(now) {
    for (SharingRun& run : slices.runs) {
      if (run.present) {
        present_[present_count_++] = &run;
      } else {
        run.wanted = false;
        run.open = false;
      }
    }
  }

  std::uint64_t Make() {
    // A run that has left may still be recorded as holder or partner.
    if (slices_.holder >= kMaxSharingRuns || !Holder().present) slices_.holder = kNobody;
    if (!slices_.pairs || slices_.partner >= kMaxSharingRuns || !Partner().present ||
        slices_.partner == slices_.holder)
      slices_.partner = kNobody;
    Account();
    NoteRequests();
    Choose();
    OpenGates();
    return NextDecision();
  }

 private:
  std::span<SharingRun* const> present() const { return std::span(present_).first(present_count_); }
  SharingRun& Holder() { return slices_.runs[slices_.holder]; }
  bool Holds(const SharingRun& run) const {
    return slices_.holder != kNobody && &run == &slices_.runs[slices_.holder];
  }
  SharingRun& Partner() { return slices_.runs[slices_.partner]; }
  bool IsPartner(const SharingRun& run) const {
    return slices_.partner != kNobody && &run == &slices_.runs[slices_.partner];
  }
  // The limit of GPU time. In pairs the limit applies to the GPU's processors instead.
  std::uint32_t LimitOf(const SharingRun& run) const { return slices_.pairs ? kWhole : run.limit; }

  // GPU time in ns charged to the run for the time passed: its busy time or, if others waited, all
  // of its time slice.
  double HadOf(SharingRun& run, std::uint64_t passed) {
    const std::uint64_t busy = run.busy > run.busy_before ? run.busy - run.busy_before : 0;
    run.busy_before = run.busy;
    const bool alive = busy != 0 || run.on_gpu || !run.wants || run.asked != run.asked_before;
    run.asked_before = run.asked;
    if (alive) run.stalled = 0;
    if (busy != 0 || run.on_gpu) run.used_at = now_;
    if (alive || !run.open || !run.wanted) run.stirred = now_;
    if (slices_.waiting != 0 && run.open && run.wanted) return static_cast<double>(passed);
    return static_cast<double>(std::min(busy, passed));
  }

  void Account() {
    const std::uint64_t since =
        slices_.decided_at == 0 || now_ < slices_.decided_at ? 0 : now_ - slices_.decided_at;
    const std::uint64_t passed = std::min(since, kLongestAccount);
    slices_.decided_at = now_;
    SamplePair(static_cast<double>(passed));
    std::array<double, kMaxSharingRuns> had;
    double had_by_all = 0;
    std::uint32_t wanting = 0, promised = 0;
    for (std::size_t i = 0; i < present().size(); ++i) {
      SharingRun& run = *present()[i];
      had_by_all += had[i] = HadOf(run, passed);
      if (!run.wanted) continue;
      ++wanting;
      promised += std::min(run.quota, kWhole);
    }
    if (passed == 0) return;
    const double time = static_cast<double>(passed);
    // The driver divides the time between runs on the GPU together.
    const double part = had_by_all > time ? time / had_by_all : 1;
    const double free =
        wanting == 0 ? 0 : (kWhole - static_cast<double>(std::min(promised, kWhole))) / wanting;
    for (std::size_t i = 0; i < present().size(); ++i) {
      SharingRun& run = *present()[i];
      const double own = had[i] * part;
      run.used += static_cast<std::uint64_t>(own);
      run.now.Add(own, static_cast<double>(since), kNow);
      run.lately.Add(own, static_cast<double>(since), kLately);
      const double weight = std::max(run.quota + free, 1.0) / kWhole;
      run.pass += own / (weight * std::max(wanting, 1U));
      const double quota = static_cast<double>(run.quota) / kWhole;
      // Short pauses count as well, for example while the program inspects results.
      const bool pauses = !run.wanted && now_ - run.idle_since < kTimeSlice;
      run.owed = std::clamp(run.owed + (run.wanted || pauses ? quota * time : 0) - own, -kMaxInHand,
                            kMaxOwed);
      if (!run.wanted && !pauses) run.owed = std::min(run.owed, 0.0);
      const double limit = static_cast<double>(LimitOf(run)) / kWhole;
      run.room = std::min(run.room + limit * time - own, kMaxRoom);
    }
  }

  // Measures the rates of a pair while both are busy and the GPU is free of leaving runs' work.
  void SamplePair(double passed) {
    if (passed == 0) return;
    std::array<double, 2> done = {0, 0};
    bool together = slices_.holder != kNobody && slices_.partner != kNobody;
    for (SharingRun* run : present()) {
      const std::uint64_t more = run->done > run->done_before ? run->done - run->done_before : 0;
      run->done_before = run->done;
      // Progress: its work on the GPU does end.
      if (more != 0) run->overdue = false;
      const std::uint64_t busy = run->busy > run->busy_before ? run->busy - run->busy_before : 0;
      if (!Holds(*run) && !IsPartner(*run)) {
        together = together && !run->on_gpu && busy == 0;
        continue;
      }
      together = together && run->open && run->known &&
                 static_cast<double>(busy) >= passed * (1 - kMaxIdle);
      done[Holds(*run) == (slices_.holder < slices_.partner) ? 0 : 1] = static_cast<double>(more);
    }
    if (!together) return;
    PairRecord& record = slices_.RecordOf(slices_.holder, slices_.partner);
    record.time += passed;
    for (std::size_t i = 0; i < 2; ++i) {
      record.done[i] += done[i];
      record.longest = std::max(record.longest, done[i] - passed);
    }
    if (record.time < kSampleTime || record.time < kSampleKernels * record.longest) return;
    SharingRun& first = slices_.runs[std::min(slices_.holder, slices_.partner)];
    SharingRun& second = slices_.runs[std::max(slices_.holder, slices_.partner)];
    first.rate = record.done[0] / record.time;
    second.rate = record.done[1] / record.time;
    AddSample(record, first.rate + second.rate, now_);
    record.time = 0;
    record.done = {0, 0};
  }

  void NoteRequests() {
    double least = 0;
    bool any = false;
    for (const SharingRun* run : present()) {
      // Runs with swapped-out memory are left out: they do not wait because of their past GPU time.
      if (!run->wanted || run->swap != 0) continue;
      least = any ? std::min(least, run->pass) : run->pass;
      any = true;
    }
    if (any) slices_.virtual_time = std::max(slices_.virtual_time, least);
    for (SharingRun* run : present()) {
      if (run->wants && !run->wanted)
        run->pass = std::max(run->pass, slices_.virtual_time - kMaxCredit);
      run->wanted = run->wants;
      if (LimitOf(*run) >= kWhole)
        run->choked = false;
      else if (run->choked ? run->room >= kRoomToBegin : run->room <= 0)
        run->choked = !run->choked;
    }
  }

  static bool MayHave(const SharingRun& run) { return run.wants && !run.choked && !run.stalled; }

  double WaitOf(const SharingRun& run) const {
    if (run.waiting_since == 0 || now_ < run.waiting_since) return 0;
    return static_cast<double>(now_ - run.waiting_since) / kNanosecondsAMillisecond;
  }

  void Rank() {
    std::array<Claim, kMaxSharingRuns> claims;
    std::array<double, kMaxSharingRuns> effective;
    count_ = 0;
    for (const SharingRun* one : present()) {
      const SharingRun& run = *one;
      if (!MayHave(run)) continue;
      claims[count_] = {-static_cast<double>(run.niceness), WaitOf(run), run.average_wait,
                        run.pass / kNanosecondsAMillisecond,
                        -static_cast<double>(run.process_niceness)};
      ranked_[count_++] = {static_cast<std::uint32_t>(one - slices_.runs.data()), 0};
    }
    if (count_ == 0) return;
    EffectivePriorities(std::span(claims).first(count_), slices_.decayed_wait, kWeights,
                        std::span(effective).first(count_));
    for (std::uint32_t i = 0; i < count_; ++i) ranked_[i].effective = effective[i];
  }

  bool Owed(std::uint32_t run) const {
    return slices_.runs[run].quota != 0 && slices_.runs[run].owed >= kMinOwed;
  }

  struct Ranked {
    std::uint32_t run;
    double effective;
  };
  enum class Among { kAll, kWorthIt };
  // The first run in line for the GPU, or null. kWorthIt leaves out runs if swapping in their
  // memory does not pay yet. `with_holder` includes the holder, at the end of its time slice.
  const Ranked* Best(Among among, bool with_holder = false) const {
    const Ranked* best = nullptr;
    for (std::uint32_t i = 0; i < count_; ++i) {
      const Ranked& one = ranked_[i];
      const bool holds = one.run == slices_.holder;
      if ((holds && !with_holder) || (!holds && among == Among::kWorthIt && !WorthIt(one.run)))
        continue;
      if (best == nullptr || Before(one, *best)) best = &one;
    }
    return best;
  }
  std::uint64_t SwapOf(std::uint32_t run) const {
    return std::min(slices_.runs[run].swap, kLongestSwap);
  }
  bool WorthIt(std::uint32_t run) const {
    const std::uint64_t swap = SwapOf(run);
    return swap == 0 ||
           (now_ >= slices_.swapped_at && now_ - slices_.swapped_at >= swap * kTimeSlicesPerSwap);
  }
  // Time in ns for which an idle holder keeps the GPU.
  std::uint64_t GraceFor(const Ranked& next) const {
    return std::max(kIdleGrace, SwapOf(next.run));
  }
  // True if `next` may take the GPU from the holder at once. A quota does not justify swapping
  // memory.
  bool Outranks(const Ranked& next) const {
    if (Owed(next.run) && SwapOf(next.run) == 0) return true;
    // A holder chosen because of its long wait keeps this advantage during its time slice.
    const auto ahead = static_cast<double>(NicenessOf(slices_.runs[slices_.holder]) -
                                           NicenessOf(slices_.runs[next.run]));
    return ahead > slices_.holder_bonus;
  }
  bool Before(const Ranked& a, const Ranked& b) const {
    if (Owed(a.run) != Owed(b.run)) return Owed(a.run);
    if (a.effective != b.effective) return a.effective > b.effective;
    return slices_.runs[a.run].pass < slices_.runs[b.run].pass;
  }

  void Choose() {
    Rank();
    const Ranked* const any = Best(Among::kAll);
    if (slices_.holder == kNobody) {
      // A run just throttled by its limit continues soon, and needs no memory swapped.
      const bool soon = std::any_of(present().begin(), present().end(), [](const SharingRun* run) {
        return run->wants && run->choked && run->swap == 0;
      });
      if (const Ranked* const next = soon ? Best(Among::kWorthIt) : any; next != nullptr)
        Give(next);
      return;
    }
    SharingRun& holder = Holder();
    if (holder.choked) return Give(Best(Among::kWorthIt));
    if (any == nullptr) return;
    if (holder.open && holder.wants && now_ - holder.stirred >= kLongestStall) {
      holder.stalled = 1;
      return Give(any);
    }
    if (holder.wants && holder.open && now_ >= slices_.time_slice_ends)
      return Give(Best(Among::kWorthIt, true));
    for (const Ranked* const other : {any, Best(Among::kWorthIt)}) {
      if (other == nullptr) continue;
      const bool idle = !holder.wants && now_ >= holder.idle_since + GraceFor(*other);
      const bool takes = Outranks(*other) && !(holder.wants && slices_.holder_owed);
      if (idle || takes) return Give(other);
    }
  }

  // Gives the next time slice to `next`; if null, the GPU stays free.
  void Give(const Ranked* next) {
    const std::uint32_t before = slices_.holder;
    slices_.holder = next == nullptr ? kNobody : next->run;
    slices_.preempting = next != nullptr && OutranksAll(slices_.runs[next->run]);
    if (next == nullptr) return;
    slices_.holder_owed = Owed(next->run);
    slices_.holder_bonus = kWeights.last_wait * WaitOf(slices_.runs[next->run]);
    slices_.time_slice_ends = now_ + kTimeSlice;
    if (before == next->run) return;
    if (SwapOf(next->run) != 0) {
      slices_.swapped_at = now_;
      // From now on it is level with the runs whose memory is on the GPU.
      SharingRun& run = slices_.runs[next->run];
      run.pass = std::max(run.pass, slices_.virtual_time - kMaxCredit);
    }
    if (slices_.pairs) ChooseWhoStays(before);
    if (before != kNobody && slices_.preempting && slices_.runs[before].wants)
      ++slices_.runs[before].preempted;
    std::uint64_t done_by = 0;
    for (const SharingRun* run : present())
      if (run->on_gpu && !Holds(*run) && !IsPartner(*run))
        done_by = std::max(done_by, run->done_by);
    slices_.leave_limit =
        std::clamp(done_by + kLeavePatience, now_ + kLeavePatience, now_ + kLongestLeave);
  }

  // True if all runs with work on the GPU are less important.
  bool OutranksAll(const SharingRun& next) const {
    return std::all_of(present().begin(), present().end(), [&](const SharingRun* run) {
      return !run->on_gpu || run == &next || NicenessOf(next) < NicenessOf(*run);
    });
  }

  // True if the holder has to wait for the work of earlier runs.
  bool SomeLeave() {
    bool some = false;
    for (SharingRun* run : present()) {
      if (!run->on_gpu) run->overdue = false;
      if (!run->on_gpu || Holds(*run) || IsPartner(*run)) continue;
      if (now_ >= slices_.leave_limit) run->overdue = true;
      some = some || !run->overdue;
    }
    return some;
  }

  // Expected sum of a pair's normalised rates; 0 if they must not be a pair.
  double SumOf(std::uint32_t a, std::uint32_t b) {
    const SharingRun& one = slices_.runs[a];
    const SharingRun& other = slices_.runs[b];
    if (a == b || !one.present || !other.present || !one.known || !other.known) return 0;
    if (one.stalled || other.stalled) return 0;
    const std::int64_t ahead = NicenessOf(other) - NicenessOf(one);
    if (ahead != 0 && (ahead > 0 ? other : one).limit >= kWhole) return 0;
    const PairRecord& record = slices_.RecordOf(a, b);
    double sum = ExpectedSum(record, one.bottleneck, other.bottleneck);
    // A loss only predicted is tried out: the real loss depends on the GPU.
    if (record.samples < kEnoughSamples) sum = std::max(sum, 1.0);
    return sum >= 1 ? sum : 0;
  }

  bool IsKnown(std::uint32_t a, std::uint32_t b) {
    return slices_.RecordOf(a, b).samples >= kEnoughSamples;
  }

  // The same for the holder and `number`. For a measured pair, also 0 if the holder had better be
  // alone: if `number` and a waiting run fit better, the pair's time costs these two more than it
  // gains.
  double PairSum(std::uint32_t number) {
    if (number == slices_.holder) return 0;
    PairRecord& record = slices_.RecordOf(slices_.holder, number);
    if (record.samples >= kEnoughSamples && !(record.sum >= 1) &&
        now_ - record.tried_at >= kTryAgain)
      record = {};
    const double sum = SumOf(slices_.holder, number);
    if (sum == 0 || !IsKnown(slices_.holder, number)) return sum;
    double elsewhere = 1;
    for (std::uint32_t i = 0; i < count_; ++i) {
      const std::uint32_t other = ranked_[i].run;
      if (other != slices_.holder && other != number && IsKnown(number, other))
        elsewhere = std::max(elsewhere, SumOf(number, other));
    }
    return 2 * sum >= 1 + elsewhere ? sum : 0;
  }

  // Chooses the run staying beside the new holder: the best match among the runs on the GPU,
  // including the previous holder.
  void ChooseWhoStays(std::uint32_t last_holder) {
    const std::uint32_t partner = slices_.partner;
    const bool was_partner = partner == slices_.holder;
    slices_.partner = kNobody;
    double best = 0;
    for (const std::uint32_t one : {last_holder, partner}) {
      if (one == kNobody || one == slices_.holder) continue;
      const double sum = slices_.runs[one].wants || was_partner ? PairSum(one) : 0;
      if (sum <= best) continue;
      slices_.partner = one;
      best = sum;
    }
  }

  void ChoosePartner() {
    std::uint32_t best = kNobody;
    double best_sum = 0;
    for (std::uint32_t i = 0; i < count_; ++i) {
      const double sum = PairSum(ranked_[i].run);
      if (sum <= best_sum) continue;
      best = ranked_[i].run;
      best_sum = sum;
    }
    const std::uint32_t now = slices_.partner;
    const double sum_now = now == kNobody ? 0 : PairSum(now);
    // An idle partner stays unless another run would use the GPU.
    if (best == now || (best == kNobody && sum_now > 0)) return;
    const bool pauses =
        now != kNobody && !Partner().wants && now_ < Partner().idle_since + kIdleGrace;
    if (sum_now > 0 && (pauses || Partner().wants)) {
      const std::uint64_t done_by = Partner().done_by;
      const double left = done_by > now_ ? static_cast<double>(done_by - now_) : 0;
      const double rest =
          slices_.time_slice_ends > now_ ? static_cast<double>(slices_.time_slice_ends - now_) : 0;
      const PairChange change{Holder().rate,      sum_now, best_sum, rest, kFixedChange + left,
                              Holder().bottleneck};
      const double gain = GainOf(change);
      if (!(gain > 0)) return;
      slices_.last_gain = gain;
      slices_.last_cost = std::min(change.change, rest) * change.sum_before;
      ++slices_.changes;
    }
    slices_.partner = best;
  }

  void OpenGates() {
    slices_.waiting = 0;
    const bool may_open = slices_.holder != kNobody && (slices_.preempting || !SomeLeave());
    const bool holder_open = slices_.holder != kNobody && (Holder().open || may_open);
    if (slices_.pairs && holder_open) ChoosePartner();
    if (slices_.holder == kNobody) slices_.partner = kNobody;
    for (SharingRun* one : present()) {
      SharingRun& run = *one;
      const bool was_open = run.open;
      run.open = (Holds(run) && holder_open) || (IsPartner(run) && (holder_open || was_open));
      if (run.open && !was_open) {
        ++run.turns;
        run.stirred = now_;
        if (Holds(run)) slices_.time_slice_ends = now_ + kTimeSlice;
      }
      const bool waits = run.wants && !run.open;
      if (waits) ++slices_.waiting;
      if (waits && run.waiting_since == 0) run.waiting_since = now_;
      if (!waits && run.waiting_since != 0) {
        const double wait = WaitOf(run);
        run.waited += now_ > run.waiting_since ? now_ - run.waiting_since : 0;
        // Waits for swapped memory do not affect priorities: the run's next time slice is long.
        if (run.swap == 0) {
          run.average_wait += (wait - run.average_wait) * kWaitDecay;
          slices_.decayed_wait += (wait - slices_.decayed_wait) * kWaitDecay;
        }
        run.waiting_since = 0;
      }
    }
  }

  std::uint64_t NextDecision() {
    std::uint64_t next = kNever;
    const auto at = [&](std::uint64_t time) { next = std::min(next, std::max(time, now_ + 1)); };
    // Accepts any value: shared memory may contain anything.
    const auto after = [&](double nanoseconds) {
      if (!(nanoseconds < kMaxDecisionInterval)) nanoseconds = kMaxDecisionInterval;
      at(now_ + static_cast<std::uint64_t>(std::max(nanoseconds, 1.0)));
    };
    for (const SharingRun* run : present()) {
      if (LimitOf(*run) >= kWhole || !run->wants) continue;
      const double limit = static_cast<double>(run->limit) / kWhole;
      if (run->choked)
        after((kRoomToBegin - run->room) / limit);
      else if (run->open)
        after(run->room / (1 - limit));
    }
    if (slices_.partner != kNobody) {
      at(now_ + kMaxDecisionInterval);
      if (!Partner().wants && slices_.waiting != 0 && now_ < Partner().idle_since + kIdleGrace)
        at(Partner().idle_since + kIdleGrace);
    }
    if (slices_.waiting == 0) return next;
    at(now_ + kMaxDecisionInterval);
    if (slices_.holder == kNobody) return next;
    // No other run may use the GPU now.
    if (Holder().open && Best(Among::kAll) == nullptr) return next;
    if (!Holder().open) {
      at(slices_.leave_limit);
      // Leaving runs may finish earlier.
      for (const SharingRun* run : present())
        if (run->on_gpu && run->done_by > now_) at(run->done_by);
    } else {
      for (const Ranked* const other : {Best(Among::kAll), Best(Among::kWorthIt)})
        if (other != nullptr && !Holder().wants) at(Holder().idle_since + GraceFor(*other));
      if (Holder().wants) at(slices_.time_slice_ends);
    }
    return next;
  }

  TimeSlices& slices_;
  const std::uint64_t now_;
  std::array<SharingRun*, kMaxSharingRuns> present_;
  std::size_t present_count_ = 0;
  std::array<Ranked, kMaxSharingRuns> ranked_;
  std::uint32_t count_ = 0;
};

}  // namespace

std::uint64_t Decide(TimeSlices& slices, std::uint64_t now) { return Decision(slices, now).Make(); }

}  // namespace cuspan::scheduling

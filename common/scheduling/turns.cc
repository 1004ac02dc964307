#include "common/scheduling/turns.h"

#include <algorithm>
#include <span>

namespace cuspan::scheduling {
namespace {

constexpr double kNanosecondsAMillisecond = 1e6;
// What is behind its quota by this much goes before all others; no run is ever owed more than the
// second, nor has more in hand than the third.
constexpr double kOwedTurn = kTurn / 4.0;
constexpr double kMostOwed = 10.0 * kTurn;
constexpr double kMostInHand = 2.0 * kTurn;
// A run with a limit may use this much at once, and begins again when so much has come together.
constexpr double kMostRoom = 2.0 * kTurn;
constexpr double kRoomToBegin = kTurn / 2.0;
// One that comes back is not paid for the time in which it wanted nothing, but for a turn.
constexpr double kMostCredit = kTurn;
// A process that was stopped knows nothing of the time between.
constexpr std::uint64_t kLongestAccount = 1'000'000'000;
constexpr double kWaitDecay = 1.0 / 8;
constexpr PriorityWeights kWeights;
// One sample of a pair is taken over at least this, in one piece or in several: where three take
// turns, a pair is together for less than a turn.
constexpr double kSampleTime = kTurn;
// And over so many times what a long kernel has done at its end.
constexpr double kSampleKernels = 4;
// Of that time both must have been on the GPU.
constexpr double kMostIdle = 0.1;
// What changing the second run of a pair takes, beside what is on the GPU.
constexpr double kFixedChange = 180'000;

class Decision {
 public:
  Decision(Turns& turns, std::uint64_t now) : turns_(turns), now_(now) {
    for (TurnRun& run : turns.runs) {
      if (run.present) {
        present_[present_count_++] = &run;
      } else {
        run.wanted = false;
        run.open = false;
      }
    }
  }

  std::uint64_t Make() {
    // Whoever has left may have had the turn.
    if (turns_.holder >= kMostSharingRuns || !Holder().present) turns_.holder = kNobody;
    if (!turns_.pairs || turns_.partner >= kMostSharingRuns || !Partner().present ||
        turns_.partner == turns_.holder)
      turns_.partner = kNobody;
    Account();
    NoteWishes();
    Choose();
    OpenGates();
    return NextLook();
  }

 private:
  std::span<TurnRun* const> present() const { return std::span(present_).first(present_count_); }
  TurnRun& Holder() { return turns_.runs[turns_.holder]; }
  bool Holds(const TurnRun& run) const {
    return turns_.holder != kNobody && &run == &turns_.runs[turns_.holder];
  }
  TurnRun& Partner() { return turns_.runs[turns_.partner]; }
  bool IsPartner(const TurnRun& run) const {
    return turns_.partner != kNobody && &run == &turns_.runs[turns_.partner];
  }
  // Of the GPU's time; in pairs it is one of its processors.
  std::uint32_t LimitOf(const TurnRun& run) const { return turns_.pairs ? kWhole : run.limit; }

  // What the run had of the time that passed: when it had something on the GPU, and, while others
  // waited for the GPU, all of its turn.
  double HadOf(TurnRun& run, std::uint64_t passed) {
    const std::uint64_t busy = run.busy > run.busy_before ? run.busy - run.busy_before : 0;
    run.busy_before = run.busy;
    const bool alive = busy != 0 || run.on_gpu || !run.wants || run.asked != run.asked_before;
    run.asked_before = run.asked;
    if (alive) run.stalled = 0;
    if (busy != 0 || run.on_gpu) run.used_at = now_;
    if (alive || !run.open || !run.wanted) run.stirred = now_;
    if (turns_.waiting != 0 && run.open && run.wanted) return static_cast<double>(passed);
    return static_cast<double>(std::min(busy, passed));
  }

  void Account() {
    const std::uint64_t since =
        turns_.looked_at == 0 || now_ < turns_.looked_at ? 0 : now_ - turns_.looked_at;
    const std::uint64_t passed = std::min(since, kLongestAccount);
    turns_.looked_at = now_;
    SamplePair(static_cast<double>(passed));
    std::array<double, kMostSharingRuns> had;
    double had_by_all = 0;
    std::uint32_t wanting = 0, promised = 0;
    for (std::size_t i = 0; i < present().size(); ++i) {
      TurnRun& run = *present()[i];
      had_by_all += had[i] = HadOf(run, passed);
      if (!run.wanted) continue;
      ++wanting;
      promised += std::min(run.quota, kWhole);
    }
    if (passed == 0) return;
    const double time = static_cast<double>(passed);
    // The driver divides the time between those that are on the GPU together.
    const double part = had_by_all > time ? time / had_by_all : 1;
    const double free =
        wanting == 0 ? 0 : (kWhole - static_cast<double>(std::min(promised, kWhole))) / wanting;
    for (std::size_t i = 0; i < present().size(); ++i) {
      TurnRun& run = *present()[i];
      const double own = had[i] * part;
      run.used += static_cast<std::uint64_t>(own);
      run.now.Add(own, static_cast<double>(since), kNow);
      run.lately.Add(own, static_cast<double>(since), kLately);
      const double weight = std::max(run.quota + free, 1.0) / kWhole;
      run.pass += own / (weight * std::max(wanting, 1U));
      const double quota = static_cast<double>(run.quota) / kWhole;
      // Of one that pauses for a moment, as to look at its results, the time counts as well.
      const bool pauses = !run.wanted && now_ - run.idle_since < kTurn;
      run.owed = std::clamp(run.owed + (run.wanted || pauses ? quota * time : 0) - own,
                            -kMostInHand, kMostOwed);
      if (!run.wanted && !pauses) run.owed = std::min(run.owed, 0.0);
      const double limit = static_cast<double>(LimitOf(run)) / kWhole;
      run.room = std::min(run.room + limit * time - own, kMostRoom);
    }
  }

  // How fast the two of a pair are together, while both have work all the time, and nobody who
  // leaves has.
  void SamplePair(double passed) {
    if (passed == 0) return;
    std::array<double, 2> done = {0, 0};
    bool together = turns_.holder != kNobody && turns_.partner != kNobody;
    for (TurnRun* run : present()) {
      const std::uint64_t more = run->done > run->done_before ? run->done - run->done_before : 0;
      run->done_before = run->done;
      // What it has on the GPU does end.
      if (more != 0) run->overdue = false;
      const std::uint64_t busy = run->busy > run->busy_before ? run->busy - run->busy_before : 0;
      if (!Holds(*run) && !IsPartner(*run)) {
        together = together && !run->on_gpu && busy == 0;
        continue;
      }
      together = together && run->open && run->known &&
                 static_cast<double>(busy) >= passed * (1 - kMostIdle);
      done[Holds(*run) == (turns_.holder < turns_.partner) ? 0 : 1] = static_cast<double>(more);
    }
    if (!together) return;
    PairRecord& record = turns_.RecordOf(turns_.holder, turns_.partner);
    record.time += passed;
    for (std::size_t i = 0; i < 2; ++i) {
      record.done[i] += done[i];
      record.longest = std::max(record.longest, done[i] - passed);
    }
    if (record.time < kSampleTime || record.time < kSampleKernels * record.longest) return;
    TurnRun& first = turns_.runs[std::min(turns_.holder, turns_.partner)];
    TurnRun& second = turns_.runs[std::max(turns_.holder, turns_.partner)];
    first.rate = record.done[0] / record.time;
    second.rate = record.done[1] / record.time;
    AddSample(record, first.rate + second.rate, now_);
    record.time = 0;
    record.done = {0, 0};
  }

  void NoteWishes() {
    double least = 0;
    bool any = false;
    for (const TurnRun* run : present()) {
      // Those whose memory is not there wait for another reason than that they had so much.
      if (!run->wanted || run->swap != 0) continue;
      least = any ? std::min(least, run->pass) : run->pass;
      any = true;
    }
    if (any) turns_.virtual_time = std::max(turns_.virtual_time, least);
    for (TurnRun* run : present()) {
      if (run->wants && !run->wanted)
        run->pass = std::max(run->pass, turns_.virtual_time - kMostCredit);
      run->wanted = run->wants;
      if (LimitOf(*run) >= kWhole)
        run->choked = false;
      else if (run->choked ? run->room >= kRoomToBegin : run->room <= 0)
        run->choked = !run->choked;
    }
  }

  static bool MayHave(const TurnRun& run) { return run.wants && !run.choked && !run.stalled; }

  double WaitOf(const TurnRun& run) const {
    if (run.waiting_since == 0 || now_ < run.waiting_since) return 0;
    return static_cast<double>(now_ - run.waiting_since) / kNanosecondsAMillisecond;
  }

  void Rank() {
    std::array<Claim, kMostSharingRuns> claims;
    std::array<double, kMostSharingRuns> effective;
    count_ = 0;
    for (const TurnRun* one : present()) {
      const TurnRun& run = *one;
      if (!MayHave(run)) continue;
      claims[count_] = {-static_cast<double>(run.niceness), WaitOf(run), run.average_wait,
                        run.pass / kNanosecondsAMillisecond,
                        -static_cast<double>(run.process_niceness)};
      ranked_[count_++] = {static_cast<std::uint32_t>(one - turns_.runs.data()), 0};
    }
    if (count_ == 0) return;
    EffectivePriorities(std::span(claims).first(count_), turns_.decayed_wait, kWeights,
                        std::span(effective).first(count_));
    for (std::uint32_t i = 0; i < count_; ++i) ranked_[i].effective = effective[i];
  }

  bool Owed(std::uint32_t run) const {
    return turns_.runs[run].quota != 0 && turns_.runs[run].owed >= kOwedTurn;
  }

  struct Ranked {
    std::uint32_t run;
    double effective;
  };
  enum class Among { kAll, kWorthIt };
  // The first of those that may have the GPU, or of those whose memory is worth bringing there now;
  // null when there is none. The holder is among them at the end of its turn.
  const Ranked* Best(Among among, bool with_holder = false) const {
    const Ranked* best = nullptr;
    for (std::uint32_t i = 0; i < count_; ++i) {
      const Ranked& one = ranked_[i];
      const bool holds = one.run == turns_.holder;
      if ((holds && !with_holder) || (!holds && among == Among::kWorthIt && !WorthIt(one.run)))
        continue;
      if (best == nullptr || Before(one, *best)) best = &one;
    }
    return best;
  }
  std::uint64_t SwapOf(std::uint32_t run) const {
    return std::min(turns_.runs[run].swap, kLongestSwap);
  }
  bool WorthIt(std::uint32_t run) const {
    const std::uint64_t swap = SwapOf(run);
    return swap == 0 ||
           (now_ >= turns_.swapped_at && now_ - turns_.swapped_at >= swap * kSwapTurns);
  }
  // How long a holder that has nothing to do keeps the GPU.
  std::uint64_t GraceFor(const Ranked& next) const {
    return std::max(kIdleGrace, SwapOf(next.run));
  }
  // Whether that one may take the GPU from the holder at once. Its quota is no reason to bring its
  // memory there.
  bool Outranks(const Ranked& next) const {
    if (Owed(next.run) && SwapOf(next.run) == 0) return true;
    // A run that was let go since it had waited keeps what that was worth.
    const auto ahead = static_cast<double>(NicenessOf(turns_.runs[turns_.holder]) -
                                           NicenessOf(turns_.runs[next.run]));
    return ahead > turns_.holder_bonus;
  }
  bool Before(const Ranked& a, const Ranked& b) const {
    if (Owed(a.run) != Owed(b.run)) return Owed(a.run);
    if (a.effective != b.effective) return a.effective > b.effective;
    return turns_.runs[a.run].pass < turns_.runs[b.run].pass;
  }

  void Choose() {
    Rank();
    const Ranked* const any = Best(Among::kAll);
    if (turns_.holder == kNobody) {
      // One that had its limit just now has the GPU again soon, without any memory being moved.
      const bool soon = std::any_of(present().begin(), present().end(), [](const TurnRun* run) {
        return run->wants && run->choked && run->swap == 0;
      });
      if (const Ranked* const next = soon ? Best(Among::kWorthIt) : any; next != nullptr)
        Give(next);
      return;
    }
    TurnRun& holder = Holder();
    if (holder.choked) return Give(Best(Among::kWorthIt));
    if (any == nullptr) return;
    if (holder.open && holder.wants && now_ - holder.stirred >= kLongestStall) {
      holder.stalled = 1;
      return Give(any);
    }
    if (holder.wants && holder.open && now_ >= turns_.turn_ends)
      return Give(Best(Among::kWorthIt, true));
    for (const Ranked* const other : {any, Best(Among::kWorthIt)}) {
      if (other == nullptr) continue;
      const bool idle = !holder.wants && now_ >= holder.idle_since + GraceFor(*other);
      const bool takes = Outranks(*other) && !(holder.wants && turns_.holder_owed);
      if (idle || takes) return Give(other);
    }
  }

  // Gives the turn to that one, or to nobody.
  void Give(const Ranked* next) {
    const std::uint32_t before = turns_.holder;
    turns_.holder = next == nullptr ? kNobody : next->run;
    turns_.preempting = next != nullptr && OutranksAll(turns_.runs[next->run]);
    if (next == nullptr) return;
    turns_.holder_owed = Owed(next->run);
    turns_.holder_bonus = kWeights.last_wait * WaitOf(turns_.runs[next->run]);
    turns_.turn_ends = now_ + kTurn;
    if (before == next->run) return;
    if (SwapOf(next->run) != 0) {
      turns_.swapped_at = now_;
      // From now on it has what the others have whose memory is there.
      TurnRun& run = turns_.runs[next->run];
      run.pass = std::max(run.pass, turns_.virtual_time - kMostCredit);
    }
    if (turns_.pairs) ChooseWhoStays(before);
    if (before != kNobody && turns_.preempting && turns_.runs[before].wants)
      ++turns_.runs[before].preempted;
    std::uint64_t done_by = 0;
    for (const TurnRun* run : present())
      if (run->on_gpu && !Holds(*run) && !IsPartner(*run))
        done_by = std::max(done_by, run->done_by);
    turns_.leave_limit =
        std::clamp(done_by + kLeavePatience, now_ + kLeavePatience, now_ + kLongestLeave);
  }

  // Whether all that have something on the GPU are less important.
  bool OutranksAll(const TurnRun& next) const {
    return std::all_of(present().begin(), present().end(), [&](const TurnRun* run) {
      return !run->on_gpu || run == &next || NicenessOf(next) < NicenessOf(*run);
    });
  }

  // Whether the holder has to wait for those who had the GPU before.
  bool SomeLeave() {
    bool some = false;
    for (TurnRun* run : present()) {
      if (!run->on_gpu) run->overdue = false;
      if (!run->on_gpu || Holds(*run) || IsPartner(*run)) continue;
      if (now_ >= turns_.leave_limit) run->overdue = true;
      some = some || !run->overdue;
    }
    return some;
  }

  // What a pair of two runs is expected to have; 0 where they are not to be one.
  double SumOf(std::uint32_t a, std::uint32_t b) {
    const TurnRun& one = turns_.runs[a];
    const TurnRun& other = turns_.runs[b];
    if (a == b || !one.present || !other.present || !one.known || !other.known) return 0;
    if (one.stalled || other.stalled) return 0;
    const std::int64_t ahead = NicenessOf(other) - NicenessOf(one);
    if (ahead != 0 && (ahead > 0 ? other : one).limit >= kWhole) return 0;
    const PairRecord& record = turns_.RecordOf(a, b);
    double sum = ExpectedSum(record, one.limits, other.limits);
    // What is only expected to lose is tried: how much it loses depends on the GPU.
    if (record.samples < kEnoughSamples) sum = std::max(sum, 1.0);
    return sum >= 1 ? sum : 0;
  }

  bool IsKnown(std::uint32_t a, std::uint32_t b) {
    return turns_.RecordOf(a, b).samples >= kEnoughSamples;
  }

  // The same of the holder and that run. Of a pair that is known also 0 if the holder had better be
  // alone, since that run is known to go better with one that waits: then the time of the pair
  // takes more from those two than it gives.
  double PairSum(std::uint32_t number) {
    if (number == turns_.holder) return 0;
    PairRecord& record = turns_.RecordOf(turns_.holder, number);
    if (record.samples >= kEnoughSamples && !(record.sum >= 1) &&
        now_ - record.tried_at >= kTryAgain)
      record = {};
    const double sum = SumOf(turns_.holder, number);
    if (sum == 0 || !IsKnown(turns_.holder, number)) return sum;
    double elsewhere = 1;
    for (std::uint32_t i = 0; i < count_; ++i) {
      const std::uint32_t other = ranked_[i].run;
      if (other != turns_.holder && other != number && IsKnown(number, other))
        elsewhere = std::max(elsewhere, SumOf(number, other));
    }
    return 2 * sum >= 1 + elsewhere ? sum : 0;
  }

  // Of those that were on the GPU, who has had the turn included, the one that goes best with the
  // next stays beside it.
  void ChooseWhoStays(std::uint32_t had_turn) {
    const std::uint32_t partner = turns_.partner;
    const bool was_partner = partner == turns_.holder;
    turns_.partner = kNobody;
    double best = 0;
    for (const std::uint32_t one : {had_turn, partner}) {
      if (one == kNobody || one == turns_.holder) continue;
      const double sum = turns_.runs[one].wants || was_partner ? PairSum(one) : 0;
      if (sum <= best) continue;
      turns_.partner = one;
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
    const std::uint32_t now = turns_.partner;
    const double sum_now = now == kNobody ? 0 : PairSum(now);
    // One without work stays, as long as nobody else would have the GPU.
    if (best == now || (best == kNobody && sum_now > 0)) return;
    const bool pauses =
        now != kNobody && !Partner().wants && now_ < Partner().idle_since + kIdleGrace;
    if (sum_now > 0 && (pauses || Partner().wants)) {
      const std::uint64_t done_by = Partner().done_by;
      const double left = done_by > now_ ? static_cast<double>(done_by - now_) : 0;
      const double rest =
          turns_.turn_ends > now_ ? static_cast<double>(turns_.turn_ends - now_) : 0;
      const PairChange change{Holder().rate,       sum_now,        best_sum, rest,
                              kFixedChange + left, Holder().limits};
      const double gain = GainOf(change);
      if (!(gain > 0)) return;
      turns_.last_gain = gain;
      turns_.last_cost = std::min(change.change, rest) * change.sum_before;
      ++turns_.changes;
    }
    turns_.partner = best;
  }

  void OpenGates() {
    turns_.waiting = 0;
    const bool may_open = turns_.holder != kNobody && (turns_.preempting || !SomeLeave());
    const bool holder_open = turns_.holder != kNobody && (Holder().open || may_open);
    if (turns_.pairs && holder_open) ChoosePartner();
    if (turns_.holder == kNobody) turns_.partner = kNobody;
    for (TurnRun* one : present()) {
      TurnRun& run = *one;
      const bool was_open = run.open;
      run.open = (Holds(run) && holder_open) || (IsPartner(run) && (holder_open || was_open));
      if (run.open && !was_open) {
        ++run.turns;
        run.stirred = now_;
        if (Holds(run)) turns_.turn_ends = now_ + kTurn;
      }
      const bool waits = run.wants && !run.open;
      if (waits) ++turns_.waiting;
      if (waits && run.waiting_since == 0) run.waiting_since = now_;
      if (!waits && run.waiting_since != 0) {
        const double wait = WaitOf(run);
        run.waited += now_ > run.waiting_since ? now_ - run.waiting_since : 0;
        // Of a wait for its memory's turn priorities know nothing: what it has then is long.
        if (run.swap == 0) {
          run.average_wait += (wait - run.average_wait) * kWaitDecay;
          turns_.decayed_wait += (wait - turns_.decayed_wait) * kWaitDecay;
        }
        run.waiting_since = 0;
      }
    }
  }

  std::uint64_t NextLook() {
    std::uint64_t next = kNever;
    const auto at = [&](std::uint64_t time) { next = std::min(next, std::max(time, now_ + 1)); };
    // Of whatever shared memory holds.
    const auto after = [&](double nanoseconds) {
      if (!(nanoseconds < kLongestWithoutLook)) nanoseconds = kLongestWithoutLook;
      at(now_ + static_cast<std::uint64_t>(std::max(nanoseconds, 1.0)));
    };
    for (const TurnRun* run : present()) {
      if (LimitOf(*run) >= kWhole || !run->wants) continue;
      const double limit = static_cast<double>(run->limit) / kWhole;
      if (run->choked)
        after((kRoomToBegin - run->room) / limit);
      else if (run->open)
        after(run->room / (1 - limit));
    }
    if (turns_.partner != kNobody) {
      at(now_ + kLongestWithoutLook);
      if (!Partner().wants && turns_.waiting != 0 && now_ < Partner().idle_since + kIdleGrace)
        at(Partner().idle_since + kIdleGrace);
    }
    if (turns_.waiting == 0) return next;
    at(now_ + kLongestWithoutLook);
    if (turns_.holder == kNobody) return next;
    // Nobody else may have the GPU just now.
    if (Holder().open && Best(Among::kAll) == nullptr) return next;
    if (!Holder().open) {
      at(turns_.leave_limit);
      // Those who leave may be done before.
      for (const TurnRun* run : present())
        if (run->on_gpu && run->done_by > now_) at(run->done_by);
    } else {
      for (const Ranked* const other : {Best(Among::kAll), Best(Among::kWorthIt)})
        if (other != nullptr && !Holder().wants) at(Holder().idle_since + GraceFor(*other));
      if (Holder().wants) at(turns_.turn_ends);
    }
    return next;
  }

  Turns& turns_;
  const std::uint64_t now_;
  std::array<TurnRun*, kMostSharingRuns> present_;
  std::size_t present_count_ = 0;
  std::array<Ranked, kMostSharingRuns> ranked_;
  std::uint32_t count_ = 0;
};

}  // namespace

std::uint64_t Decide(Turns& turns, std::uint64_t now) { return Decision(turns, now).Make(); }

}  // namespace cuspan::scheduling

#include "bench/allocator/sharing.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>
#include <random>

#include "common/scheduling/time_slices.h"
#include "protocol/sharing/memory_room.h"

namespace cuspan::bench::allocator {
namespace {

constexpr std::uint64_t kGibibyte = std::uint64_t{1} << 30;
constexpr std::uint64_t kGpuBytes = 80 * kGibibyte;
constexpr std::uint64_t kInteractiveGibibytes[] = {4, 8, 16, 24};
constexpr std::uint64_t kBatchGibibytes[] = {8, 16, 32, 64};
constexpr double kInteractive = 0.6;
constexpr double kUnknown = 0.1;

// Total throughput of two time-sliced runs, measured by `cuspan bench share` with two batch
// programs.
constexpr double kInTurns = 0.98;
constexpr double kNever = std::numeric_limits<double>::infinity();

constexpr Leasing kLeasings[] = {{"exclusive", 1, false, Policy::kLocalFirst},
                                 {"turns", 2, false, Policy::kLocalFirst},
                                 {"turns", 4, false, Policy::kLocalFirst},
                                 {"pairs", 2, true, Policy::kLocalFirst},
                                 {"pairs", 2, true, Policy::kPair}};

std::uint32_t QuotaOf(const SharedRun& run) {
  return run.interactive ? static_cast<std::uint32_t>(std::lround(run.part * scheduling::kWhole))
                         : 0;
}

class SharingSimulation {
 public:
  SharingSimulation(const SharedWorkload& workload, const Leasing& leasing)
      : workload_(workload),
        leasing_(leasing),
        leases_(workload.pool),
        loads_(workload.pool.gpus.size()),
        gpus_(workload.pool.gpus.size()),
        from_(workload.runs[workload.runs.size() / 2].arrival),
        to_(workload.runs.back().arrival) {
    if (leasing.most_runs > 1) leases_.loads = loads_;
  }

  SharingOutcome Run() {
    std::size_t next = 0;
    while (next < workload_.runs.size() || !changes_.empty()) {
      const bool arrives = next < workload_.runs.size() &&
                           (changes_.empty() || workload_.runs[next].arrival <= changes_.top().at);
      if (arrives) {
        GoTo(workload_.runs[next].arrival);
        waiting_.push(next++);
      } else {
        const Change change = changes_.top();
        changes_.pop();
        Gpu& gpu = gpus_[change.gpu];
        // Stale: another run started or ended meanwhile.
        if (change.serial != gpu.serial) continue;
        GoTo(change.at);
        End(change.gpu);
      }
      ServeQueue();
    }
    return Summary();
  }

 private:
  struct Running {
    std::size_t run;
    double started;
    double left;  // Seconds of work.
  };
  struct Gpu {
    std::vector<Running> runs;
    GpuRates rates;
    double since = 0;
    std::uint32_t serial = 0;  // Number of changes.
  };
  // End of the next run of a GPU.
  struct Change {
    double at;
    std::uint32_t gpu;
    std::uint32_t serial;
    bool operator<(const Change& other) const { return at > other.at; }  // Earliest on top.
  };

  void GoTo(double now) {
    const double seconds = std::clamp(now, from_, to_) - std::clamp(now_, from_, to_);
    busy_seconds_ += busy_ * seconds;
    work_seconds_ += work_ * seconds;
    now_ = now;
  }

  double RateOf(const Gpu& gpu, const Running& running) const {
    return workload_.runs[running.run].interactive ? 1 : gpu.rates.batch;
  }

  // Accounts for the work of its runs since the last change. Called before each change.
  void Advance(Gpu& gpu) {
    for (Running& running : gpu.runs) running.left -= (now_ - gpu.since) * RateOf(gpu, running);
    gpu.since = now_;
    busy_ -= gpu.rates.busy;
    work_ -= gpu.rates.work;
  }

  void SetRates(std::uint32_t number) {
    Gpu& gpu = gpus_[number];
    std::vector<const SharedRun*> runs;
    GpuLoad load;
    for (const Running& running : gpu.runs) {
      const SharedRun& run = workload_.runs[running.run];
      runs.push_back(&run);
      load.Add(QuotaOf(run), run.memory_bytes, run.kind);
    }
    loads_[number] = load;
    if (!leases_.loads.empty()) leases_.loads[number] = load;
    gpu.rates = RatesOf(runs, leasing_.pairs);
    busy_ += gpu.rates.busy;
    work_ += gpu.rates.work;
    ++gpu.serial;
    double next = kNever;
    for (const Running& running : gpu.runs) {
      const double rate = RateOf(gpu, running);
      if (rate > 0) next = std::min(next, now_ + std::max(running.left, 0.0) / rate);
    }
    if (next < kNever) changes_.push({next, number, gpu.serial});
  }

  // Ends the run with the least remaining time.
  void End(std::uint32_t number) {
    Gpu& gpu = gpus_[number];
    const auto time_left = [&](const Running& running) {
      const double rate = RateOf(gpu, running);
      return rate > 0 ? running.left / rate : kNever;
    };
    const auto ends = std::min_element(
        gpu.runs.begin(), gpu.runs.end(),
        [&](const Running& a, const Running& b) { return time_left(a) < time_left(b); });
    const Running ended = *ends;
    Advance(gpu);
    gpu.runs.erase(ends);
    blocked_ = false;
    SetRates(number);
    if (now_ >= from_ && now_ <= to_) ++completed_;
    const SharedRun& run = workload_.runs[ended.run];
    if (!run.interactive && run.arrival >= from_)
      slowdowns_.push_back((now_ - ended.started) / run.seconds);
  }

  // Same rule as in the table of runs sharing a GPU.
  bool HasRoom(const GpuLoad& load, const SharedRun& run, std::uint32_t quota) const {
    if (load.runs == 0) return true;
    return load.runs < leasing_.most_runs && load.promised + quota <= scheduling::kWhole &&
           load.memory_bytes + run.memory_bytes + (load.runs + 1) * context_bytes_ <= kGpuBytes;
  }

  // Serves in order of arrival: every run waits on all hosts.
  void ServeQueue() {
    while (!waiting_.empty() && !blocked_) {
      const SharedRun& run = workload_.runs[waiting_.front()];
      const std::uint32_t quota = QuotaOf(run);
      for (std::size_t gpu = 0; gpu < gpus_.size(); ++gpu)
        leases_.held[gpu] = HasRoom(loads_[gpu], run, quota) ? 0 : 1;
      AllocationRequest request;
      request.policy = leasing_.policy;
      request.least_memory_bytes = run.memory_bytes;
      request.kind = run.kind;
      const Decision decision = decisions_.Decide(workload_.pool, leases_, request);
      blocked_ = decision.verdict != Decision::Verdict::kChosen;
      if (blocked_) return;
      if (run.arrival >= from_) waits_.push_back(now_ - run.arrival);
      Gpu& gpu = gpus_[decision.gpus.front()];
      Advance(gpu);
      gpu.runs.push_back({waiting_.front(), now_, run.seconds});
      SetRates(decision.gpus.front());
      waiting_.pop();
    }
  }

  SharingOutcome Summary() {
    SharingOutcome outcome;
    outcome.leasing = &leasing_;
    outcome.decisions = decisions_.Figures();
    if (to_ <= from_) return outcome;  // Too few runs.
    const double span = (to_ - from_) * static_cast<double>(gpus_.size());
    outcome.utilisation = busy_seconds_ / span;
    outcome.work = work_seconds_ / span;
    outcome.wait_mean = Mean(waits_);
    outcome.wait_p95 = Quantile(waits_, 0.95);
    outcome.completed_per_hour = static_cast<double>(completed_) / (to_ - from_) * 3600;
    outcome.batch_slowdown = Mean(slowdowns_);
    return outcome;
  }

  const SharedWorkload& workload_;
  const Leasing& leasing_;
  PoolLeases leases_;
  std::vector<GpuLoad> loads_;  // Also filled without sharing.
  std::vector<Gpu> gpus_;
  const double from_, to_;  // Measured period.
  const std::uint64_t context_bytes_ = sharing::ContextBytes(kGpuBytes);
  std::queue<std::size_t> waiting_;
  bool blocked_ = false;  // The first waiting run found no room since a run ended.
  std::priority_queue<Change> changes_;
  double now_ = 0;
  double busy_ = 0, work_ = 0;  // Current sum of all GPUs.
  double busy_seconds_ = 0, work_seconds_ = 0;
  std::uint64_t completed_ = 0;
  DecisionTimes decisions_;
  std::vector<double> waits_, slowdowns_;
};

}  // namespace

std::span<const Leasing> Leasings() { return kLeasings; }

SharedWorkload MakeSharedWorkload(const SharingOptions& options) {
  std::mt19937_64 random(options.seed);
  std::uniform_real_distribution<double> part(0, 1);
  SharedWorkload workload;
  for (std::uint32_t node = 0; node < options.nodes; ++node)
    workload.pool.AddHost(std::vector<PoolGpu>(options.gpus_per_node, {kGpuBytes, 1, 90, true}));
  const double gpus = static_cast<double>(workload.pool.gpus.size());
  std::exponential_distribution<double> pause(options.load * gpus / options.mean_seconds);
  std::exponential_distribution<double> seconds(1 / options.mean_seconds);
  std::uniform_real_distribution<double> used(0.05, 0.3);
  std::uniform_int_distribution<std::size_t> size(0, std::size(kBatchGibibytes) - 1);
  const auto at_once =
      static_cast<std::uint32_t>(std::min(options.load * gpus, 0.5 * options.runs));
  double now = 0;
  for (std::uint32_t i = 0; i < options.runs; ++i) {
    SharedRun run;
    if (i >= at_once) now += pause(random);
    run.arrival = now;
    run.seconds = seconds(random);
    run.interactive = part(random) < kInteractive;
    if (run.interactive) run.part = used(random);
    run.memory_bytes =
        kGibibyte * (run.interactive ? kInteractiveGibibytes : kBatchGibibytes)[size(random)];
    const double kind = part(random);
    if (kind >= kUnknown)
      run.kind = kind < (1 + kUnknown) / 2 ? scheduling::Bottleneck::kCompute
                                           : scheduling::Bottleneck::kMemory;
    workload.runs.push_back(run);
  }
  return workload;
}

GpuRates RatesOf(std::span<const SharedRun* const> runs, bool pairs) {
  GpuRates rates;
  double bursts = 0;  // Fraction of time needed by interactive runs.
  double batch = 0;
  for (const SharedRun* run : runs) (run->interactive ? bursts : batch) += run->part;
  if (batch == 0) {
    rates.work = rates.busy = std::min(bursts, 1.0);
    return rates;
  }
  double sum = 1;  // Sum of the rates of two runs executed together.
  if (pairs && runs.size() == 2) sum = scheduling::ExpectedSum({}, runs[0]->kind, runs[1]->kind);
  double done;  // Rate of all batch runs.
  if (runs.size() == 1)
    done = 1;
  else if (sum <= 1)
    done = std::max(kInTurns - bursts, 0.0);
  else if (bursts == 0)
    done = sum;
  else
    // Bursts take 2 / sum of their time alone. Meanwhile, the batch run has the rate sum / 2, too.
    done = 1 - bursts / (sum / 2) + bursts;
  rates.batch = done / batch;
  rates.work = done + bursts;
  rates.busy = 1;
  return rates;
}

SharingOutcome SimulateSharing(const SharedWorkload& workload, const Leasing& leasing) {
  return SharingSimulation(workload, leasing).Run();
}

}  // namespace cuspan::bench::allocator

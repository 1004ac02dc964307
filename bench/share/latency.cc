#include "bench/common/median.h"
#include "bench/share/stage.h"
#include "common/format.h"

namespace cuspan::bench::share {

namespace {

// A block on every multiprocessor, or on a quarter of them. Eight blocks fill one.
constexpr double kAllProcessors = 1.0 / 8, kQuarter = 1.0 / 32;
// Fraction of samples before the proxies know the kernels' times.
constexpr double kLearning = 0.2;

std::vector<double> WithoutLearning(std::vector<double> times) {
  times.erase(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(
                                                 kLearning * static_cast<double>(times.size())));
  return times;
}

}  // namespace

// A high-priority program working in bursts, beside a program always busy.
Status Latency(Stage& stage) {
  struct Case {
    const char* name;
    int kernels, gap;
    double microseconds;
    double fills;  // Fraction of the GPU.
  };
  for (const Case& one :
       {Case{"bursts", 40, 40, 250, 1}, Case{"singles", 1, 3, 100, kAllProcessors},
        Case{"small singles", 1, 3, 100, kQuarter}}) {
    const int bursts = one.kernels == 1 ? stage.options().bursts * 10 : stage.options().bursts;
    const Part burst = stage.Bursts(one.name, bursts, one.kernels, one.gap, one.microseconds,
                                    one.fills, {"--priority", "high"});
    CUSPAN_ASSIGN_OR_RETURN(const std::vector<std::string> alone, stage.Run({burst}, Way::kAlone));
    const std::vector<double> times = WithoutLearning(ReadTimes(alone[0]));
    if (times.empty()) return Status::Internal("{}: nothing was measured", one.name);
    const double p50 = Median(times), p99 = Percentile(times, 0.99);
    stage.Add("alone", one.name, "p50 us", p50);
    stage.Add("alone", one.name, "p99 us", p99);
    const double period = one.gap * 1e-3 + p50 * 1e-6;
    const double took = period * bursts;
    // The long kernel has one or twenty waves of blocks.
    for (const auto& [length, waves] :
         {std::pair(200.0, 1), std::pair(20'000.0, 20), std::pair(20'000.0, 1)}) {
      const std::string name = Format("batch {} ms{}", length / 1000,
                                      waves > 1 ? Format(", {} waves", waves) : std::string());
      const int pending = length > 1000 ? 4 : Stage::kPending;
      const Part alone_batch =
          stage.Batch(name, length, stage.options().seconds, {}, pending, waves);
      CUSPAN_ASSIGN_OR_RETURN(const std::vector<std::string> batch_alone,
                              stage.Run({alone_batch}, Way::kAlone));
      const double rate = Rate(ReadProgress(batch_alone[0]), 0.5, stage.options().seconds);
      // Fraction of GPU time left by the bursts. Bursts not filling the GPU leave all of it.
      const double left = 1 - p50 * 1e-6 / period;
      for (const Way way : stage.soft() ? std::vector{Way::kShare}
                                        : std::vector{Way::kPlain, Way::kShare, Way::kPair}) {
        std::vector<std::string> terms = {"--priority", "low"};
        // 75% of the multiprocessors.
        if (way == Way::kPair) terms.insert(terms.end(), {"--limit", "75%"});
        // It ends with the bursts.
        const Part batch = stage.Batch(name, length, took * 100 + 60, terms, pending, waves);
        CUSPAN_ASSIGN_OR_RETURN(const std::vector<std::string> said,
                                stage.Run({burst, batch}, way, true));
        const std::vector<double> beside = WithoutLearning(ReadTimes(said[0]));
        const std::string both = Format("{} beside {}", one.name, name);
        stage.Add(NameOf(way), both, "p50 us", Median(beside), p50);
        stage.Add(NameOf(way), both, "p99 us", Percentile(beside, 0.99), p99);
        stage.Add(NameOf(way), both, "batch kernels/s", Rate(ReadProgress(said[1]), 0.2, took),
                  rate * left);
      }
    }
  }
  return Status::Ok();
}

}  // namespace cuspan::bench::share

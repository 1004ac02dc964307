#include <algorithm>
#include <cmath>

#include "bench/common/median.h"
#include "bench/share/stage.h"
#include "common/format.h"

namespace cuspan::bench::share {

namespace {

Result<double> AloneRate(Stage& stage, double microseconds) {
  const Part part = stage.Batch(Format("batch {} ms", microseconds / 1000), microseconds,
                                stage.options().seconds);
  CUSPAN_ASSIGN_OR_RETURN(const std::vector<std::string> said, stage.Run({part}, Way::kAlone));
  const double rate = Rate(ReadProgress(said[0]), 0.5, stage.options().seconds);
  stage.Add("alone", part.name, "kernels/s", rate);
  return rate;
}

}  // namespace

// Programs always busy: rate of each relative to its rate alone, and the sum.
Status Throughput(Stage& stage) {
  CUSPAN_ASSIGN_OR_RETURN(const double short_rate, AloneRate(stage, 200));
  CUSPAN_ASSIGN_OR_RETURN(const double long_rate, AloneRate(stage, 2000));
  for (const auto& [first, second] : {std::pair(200.0, 200.0), std::pair(200.0, 2000.0)}) {
    const std::vector<Part> parts = {
        stage.Batch(Format("batch {} ms", first / 1000), first, stage.options().seconds),
        stage.Batch(Format("batch {} ms", second / 1000), second, stage.options().seconds)};
    for (const Way way :
         stage.soft() ? std::vector{Way::kShare} : std::vector{Way::kPlain, Way::kShare}) {
      CUSPAN_ASSIGN_OR_RETURN(const std::vector<std::string> said, stage.Run(parts, way));
      double sum = 0;
      const std::string both = parts[0].name + " beside " + parts[1].name;
      for (std::size_t i = 0; i < 2; ++i) {
        const double alone = (i == 0 ? first : second) == 200.0 ? short_rate : long_rate;
        const double rate = Rate(ReadProgress(said[i]), 0.5, stage.options().seconds);
        sum += rate / alone;
        stage.Add(NameOf(way), both, i == 0 ? "first kernels/s" : "second kernels/s", rate, alone);
      }
      stage.Add(NameOf(way), both, "sum of both parts", sum);
    }
  }
  return Status::Ok();
}
// Three programs with quotas and very different kernel times.
Status Fair(Stage& stage) {
  struct Case {
    double microseconds;
    int quota;
    int pending;
  };
  const Case cases[] = {{stage.soft() ? 100.0 : 20.0, 50, 256}, {1000, 30, 32}, {20'000, 20, 4}};
  const double seconds = std::max(stage.options().seconds * 2, 10.0);
  std::vector<Part> parts;
  std::vector<double> alone;
  for (const Case& one : cases) {
    const std::string name = Format("batch {} ms", one.microseconds / 1000);
    CUSPAN_ASSIGN_OR_RETURN(
        const std::vector<std::string> said,
        stage.Run({stage.Batch(name, one.microseconds, stage.options().seconds, {}, one.pending)},
                  Way::kAlone));
    alone.push_back(Rate(ReadProgress(said[0]), 0.5, stage.options().seconds));
    parts.push_back(stage.Batch(name, one.microseconds, seconds,
                                {"--quota", Format("{}%", one.quota)}, one.pending));
  }
  CUSPAN_ASSIGN_OR_RETURN(const std::vector<std::string> said, stage.Run(parts, Way::kShare));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Progress progress = ReadProgress(said[i]);
    double worst = 0;
    for (double from = 0.5; from + 5 <= seconds - 0.5; from += 0.5) {
      const double part = Rate(progress, from, from + 5) / alone[i] * 100;
      if (std::abs(part - cases[i].quota) > std::abs(worst - cases[i].quota) || worst == 0)
        worst = part;
    }
    stage.Add("share", parts[i].name, Format("% of {}, whole", cases[i].quota),
              Rate(progress, 0.5, seconds - 0.5) / alone[i] * 100);
    stage.Add("share", parts[i].name, Format("% of {}, worst 5 s", cases[i].quota), worst);
  }
  return Status::Ok();
}

// Cost of --share for a run alone.
Status Cost(Stage& stage) {
  for (const double length : {5.0, 100.0, 5000.0}) {
    const std::string name = Format("batch {} ms", length / 1000);
    const int pending = length > 1000 ? 8 : length < 50 ? 1000 : Stage::kPending;
    double rates[2] = {};
    std::vector<double> by_round[2];
    for (int round = 0; round < 3; ++round)
      for (const Way way : {Way::kAlone, Way::kShare}) {
        CUSPAN_ASSIGN_OR_RETURN(
            const std::vector<std::string> said,
            stage.Run({stage.Batch(name, length, stage.options().seconds / 2, {}, pending)}, way));
        by_round[way == Way::kShare ? 1 : 0].push_back(
            Rate(ReadProgress(said[0]), 0.3, stage.options().seconds / 2));
      }
    for (int i = 0; i < 2; ++i) rates[i] = Median(by_round[i]);
    stage.Add("alone", name, "kernels/s", rates[0]);
    stage.Add("share, alone", name, "kernels/s", rates[1], rates[0]);
  }
  return Status::Ok();
}

}  // namespace cuspan::bench::share

#include <utility>
#include <vector>

#include "bench/common/median.h"
#include "bench/share/stage.h"
#include "common/format.h"
#include "common/scheduling/pairs.h"

namespace cuspan::bench::share {
namespace {

constexpr double kLongMicroseconds = 20'000;
// A very short launch, always during a kernel of the other run.
constexpr double kSingleMicroseconds = 5;
constexpr int kGapMs = 3;
constexpr int kSharedKiB[] = {0, 48, 96, 144, 192};
// Bytes of registers of a block: 256 threads, with as few registers as compiled for program.cu.
constexpr double kRegisterBytes = 256 * 16 * 4;

struct Line {
  double slope, at_zero;
};
// Least-squares fit.
Line Fit(const std::vector<std::pair<double, double>>& points) {
  double x = 0, y = 0, xx = 0, xy = 0;
  const auto count = static_cast<double>(points.size());
  for (const auto& [px, py] : points) x += px, y += py, xx += px * px, xy += px * py;
  const double slope = (count * xy - x * y) / (count * xx - x * x);
  return {slope, (y - slope * x) / count};
}

}  // namespace

// Time to remove a run from the GPU in the middle of a kernel, by the state of its blocks. Fits the
// constants of the reference's formula (common/scheduling/pairs.h) to this GPU. `by_misses`, the
// constant for L2 misses of a staying kernel, cannot be seen: the GPU switches between runs as a
// whole, so no kernel stays.
Status Change(Stage& stage) {
  if (stage.soft()) return Status::Ok();  // Its processes do not switch on a device.
  const int times = stage.options().bursts * 10;
  const Part single =
      stage.Bursts("single", times, 1, kGapMs, kSingleMicroseconds, 0, {"--priority", "high"});
  CUSPAN_ASSIGN_OR_RETURN(const std::vector<std::string> alone, stage.Run({single}, Way::kAlone));
  const std::vector<double> alone_times = ReadTimes(alone[0]);
  if (alone_times.empty()) return Status::Internal("nothing was measured");
  const double alone_us = Median(alone_times);
  stage.Add("alone", single.name, "p50 us", alone_us);
  const scheduling::ChangeCost reference;
  std::vector<std::pair<double, double>> points;
  for (const int kib : kSharedKiB) {
    if (kib > stage.shared_kib()) break;
    const Part held = stage.Holding(Format("blocks with {} KiB", kib), kLongMicroseconds, kib, 1e4,
                                    {"--priority", "low"});
    CUSPAN_ASSIGN_OR_RETURN(const std::vector<std::string> said,
                            stage.Run({single, held}, Way::kShare, true));
    const std::vector<double> beside = ReadTimes(said[0]);
    if (beside.empty()) return Status::Internal("nothing was measured");
    const double change = Median(beside) - alone_us;
    const double bytes = kib * 1024.0 + kRegisterBytes;
    points.emplace_back(bytes * stage.processors(), change * 1e3);
    stage.Add("share", held.name, "change, p50 us", change);
    stage.Add("reference", held.name, "change, us",
              scheduling::TimeOfChange(reference, 0, bytes, stage.processors()) / 1e3);
  }
  const Line line = Fit(points);
  stage.Add("share", "fitted", "cycles a byte", line.slope / reference.nanoseconds_a_cycle);
  stage.Add("share", "fitted", "fixed, us", line.at_zero / 1e3);
  stage.Add("reference", "its fit", "cycles a byte", reference.base);
  stage.Add("reference", "its fit", "more by misses", reference.by_misses);
  return Status::Ok();
}

}  // namespace cuspan::bench::share

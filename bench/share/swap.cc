#include <algorithm>

#include "bench/share/stage.h"
#include "common/format.h"

namespace cuspan::bench::share {
namespace {

// Fraction of the GPU's memory: two of these do not fit.
constexpr double kPart = 0.6;
// Enough to measure the time of one round and then set their number.
constexpr int kFirstRounds = 20;
// A run keeps the GPU for twenty times as long as swapping its memory in takes.
constexpr double kTimesSeconds = 6;

// Time printed by the program (s).
double ReadSeconds(const std::string& text) {
  const std::vector<double> times = ReadTimes(text);
  return times.empty() ? 0 : times.front();
}

}  // namespace

// Two programs exceeding the GPU's memory together, compared with one after the other.
Status Swap(Stage& stage) {
  if (stage.soft()) stage.environment().Set(settings::kSoftMemory.name, "512M");
  const auto fills = [&](int rounds) {
    return Part{Format("{} of the memory", kPart),
                {"--memory", "all"},
                {"fills", std::to_string(kPart), std::to_string(rounds)}};
  };
  CUSPAN_ASSIGN_OR_RETURN(const std::vector<std::string> first,
                          stage.Run({fills(kFirstRounds)}, Way::kAlone));
  const double round = ReadSeconds(first[0]) / kFirstRounds;
  if (round <= 0) return Status::Internal("nothing was measured");
  const int rounds =
      std::max(kFirstRounds, static_cast<int>(stage.options().seconds * kTimesSeconds / round));
  double alone = 0;
  for (int i = 0; i < 2; ++i) {
    CUSPAN_ASSIGN_OR_RETURN(const std::vector<std::string> said,
                            stage.Run({fills(rounds)}, Way::kAlone));
    alone += ReadSeconds(said[0]);
  }
  stage.Add("alone", fills(rounds).name, "s, two in turn", alone);
  CUSPAN_ASSIGN_OR_RETURN(const std::vector<std::string> said,
                          stage.Run({fills(rounds), fills(rounds)}, Way::kShare));
  double until_both = 0;
  for (const std::string& one : said) until_both = std::max(until_both, ReadSeconds(one));
  stage.Add("share", Format("two of {}", fills(rounds).name), "s until both end", until_both,
            alone);
  return Status::Ok();
}

}  // namespace cuspan::bench::share

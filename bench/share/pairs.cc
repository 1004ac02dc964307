#include <map>
#include <vector>

#include "bench/share/stage.h"
#include "common/format.h"

namespace cuspan::bench::share {
namespace {

// A kernel of program.cu, with `blocks` blocks per multiprocessor.
struct Kind {
  const char* kernel;
  int blocks;
};
// Compute-bound.
constexpr Kind kMultiplies{"multiply", 8}, kFewMultiplies{"multiply", 2}, kIntegers{"integers", 2};
// Memory-bound.
constexpr Kind kCopies{"copy", 8}, kFewCopies{"copy", 6}, kSums{"sum", 6};

// Seconds until the decision to run both together: by then they were observed together often
// enough.
constexpr double kSettled = 1.5;

class Rates {
 public:
  explicit Rates(Stage& stage) : stage_(stage) {}

  Result<double> Alone(const Kind& kind) {
    const Part part = stage_.BatchOf(kind.kernel, kind.blocks, stage_.options().seconds);
    const auto known = alone_.find(part.name);
    if (known != alone_.end()) return known->second;
    CUSPAN_ASSIGN_OR_RETURN(const std::vector<std::string> said, stage_.Run({part}, Way::kAlone));
    const double rate = Rate(ReadProgress(said[0]), 0.5, stage_.options().seconds);
    stage_.Add(NameOf(Way::kAlone), part.name, "kernels/s", rate);
    return alone_[part.name] = rate;
  }

  // Sum of the kinds' rates when run together, each relative to its rate alone.
  Status Together(const std::vector<Kind>& kinds, Way way) {
    const double seconds = stage_.options().seconds + kSettled;
    std::vector<Part> parts;
    std::vector<double> alone;
    std::string names;
    for (const Kind& kind : kinds) {
      CUSPAN_ASSIGN_OR_RETURN(const double rate, Alone(kind));
      alone.push_back(rate);
      parts.push_back(stage_.BatchOf(kind.kernel, kind.blocks, seconds));
      names += (names.empty() ? "" : " + ") + parts.back().name;
    }
    CUSPAN_ASSIGN_OR_RETURN(const std::vector<std::string> said, stage_.Run(parts, way));
    double sum = 0;
    for (std::size_t i = 0; i < parts.size(); ++i)
      sum += Rate(ReadProgress(said[i]), kSettled, seconds) / alone[i];
    stage_.Add(NameOf(way), names, "sum of parts", sum);
    return Status::Ok();
  }

 private:
  Stage& stage_;
  std::map<std::string, double> alone_;
};

}  // namespace

// Two programs at the same time, and three with a pair among them: under the driver alone, under
// manual MPS, time-sliced, and in pairs.
Status Pairs(Stage& stage) {
  Rates rates(stage);
  const std::vector<Way> ways = stage.soft()
                                    ? std::vector{Way::kShare, Way::kPair}
                                    : std::vector{Way::kPlain, Way::kMps, Way::kShare, Way::kPair};
  for (const std::vector<Kind>& kinds :
       {std::vector{kFewMultiplies, kFewCopies}, std::vector{kMultiplies, kCopies},
        std::vector{kCopies, kCopies}, std::vector{kMultiplies, kMultiplies}})
    for (const Way way : ways) CUSPAN_RETURN_IF_ERROR(rates.Together(kinds, way));
  // If programs were paired in order of arrival, the first two would stay paired to their end.
  if (!stage.soft()) CUSPAN_RETURN_IF_ERROR(rates.Together({kCopies, kSums}, Way::kMps));
  for (const Way way : {Way::kShare, Way::kPair})
    CUSPAN_RETURN_IF_ERROR(rates.Together({kCopies, kSums, kFewMultiplies}, way));
  return Status::Ok();
}

// All pairs of six programs, time-sliced and together.
Status Matrix(Stage& stage) {
  Rates rates(stage);
  const std::vector<Kind> kinds = {kMultiplies, kFewMultiplies, kIntegers,
                                   kCopies,     kFewCopies,     kSums};
  for (std::size_t i = 0; i < kinds.size(); ++i)
    for (std::size_t k = i; k < kinds.size(); ++k)
      for (const Way way : {Way::kShare, Way::kPair})
        CUSPAN_RETURN_IF_ERROR(rates.Together({kinds[i], kinds[k]}, way));
  return Status::Ok();
}

}  // namespace cuspan::bench::share

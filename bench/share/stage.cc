#include "bench/share/stage.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <sstream>

#include "bench/common/child.h"
#include "bench/share/mps.h"
#include "common/format.h"

namespace cuspan::bench::share {
namespace {

// Software GPU: fixed time of a block.
constexpr int kSoftBlockMicroseconds = 50;

}  // namespace

const char* NameOf(Way way) {
  switch (way) {
    case Way::kAlone:
      return "alone";
    case Way::kPlain:
      return "plain";
    case Way::kMps:
      return "mps";
    case Way::kShare:
      return "share";
    case Way::kPair:
      return "pair";
  }
  return "";
}

Progress ReadProgress(const std::string& text) {
  Progress progress = {{0, 0}};
  std::istringstream lines(text);
  for (double time = 0, kernels = 0; lines >> time >> kernels;)
    progress.emplace_back(time / 1e9, kernels);
  return progress;
}

double Rate(const Progress& progress, double from, double to) {
  const auto at = [&](double time) {
    const auto found = std::find_if(progress.begin(), progress.end(),
                                    [&](const auto& one) { return one.first >= time; });
    return found == progress.end() ? progress.back() : *found;
  };
  const auto first = at(from), last = at(to);
  return last.first > first.first ? (last.second - first.second) / (last.first - first.first) : 0;
}

std::vector<double> ReadTimes(const std::string& text) {
  std::vector<double> times;
  std::istringstream lines(text);
  for (double time = 0; lines >> time;) times.push_back(time);
  return times;
}

double Percentile(std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  const double rank = std::ceil(part * static_cast<double>(values.size()));
  return values[static_cast<std::size_t>(std::max(rank, 1.0)) - 1];
}

Result<Stage> Stage::Open(const Options& options) {
  Stage stage(options);
  CUSPAN_ASSIGN_OR_RETURN(stage.folder_, OwnFolder());
  // The programs' kernels have a different duration each time.
  stage.environment_.Set(settings::kKernelTimes.name, "off");
  if (stage.soft())
    stage.environment_.Set(settings::kSoftRate.name, std::to_string(kSoftBlockMicroseconds));
  else
    CUSPAN_RETURN_IF_ERROR(stage.Calibrate());
  return stage;
}

Status Stage::Calibrate() {
  const std::vector<std::string> words = Words({"calibrate", {}, {"calibrate"}}, Way::kAlone, 1);
  CUSPAN_ASSIGN_OR_RETURN(const std::string text, Capture(words));
  std::istringstream fields(text);
  if (!(fields >> nanoseconds_per_1000_ >> filling_blocks_ >> shared_kib_) ||
      nanoseconds_per_1000_ <= 0)
    return Status::Internal("the measuring program printed '{}'", text);
  return Status::Ok();
}

std::vector<std::string> Stage::Words(const Part& part, Way way, std::size_t parts) const {
  std::vector<std::string> words;
  if (way != Way::kPlain && way != Way::kMps) {
    words = {folder_ + "/../../bin/cuspan", "run", "--gpus", "1", "--device", options_->device};
    if (way != Way::kAlone) {
      words.insert(words.end(), {way == Way::kPair ? "--share=pair" : "--share", "--share-limit",
                                 std::to_string(std::max<std::size_t>(parts, 2))});
      words.insert(words.end(), part.terms.begin(), part.terms.end());
    }
    words.emplace_back("--");
  }
  words.push_back(folder_ + "/bench-share-program");
  words.insert(words.end(), part.arguments.begin(), part.arguments.end());
  return words;
}

Result<std::unique_ptr<Actor>> Stage::Start(const Part& part, Way way, std::size_t parts,
                                            const Environment& environment) const {
  return Actor::Start(Words(part, way, parts), environment);
}

Result<std::vector<std::string>> Stage::Run(const std::vector<Part>& parts, Way way,
                                            bool until_first_ends) const {
  std::string names;
  for (const Part& part : parts) names += (names.empty() ? "" : " + ") + part.name;
  std::fputs(Format("{}: {}, {}\n", scenario_, names, NameOf(way)).c_str(), stderr);
  Environment environment = environment_;
  std::unique_ptr<MpsDaemon> daemon;
  if (way == Way::kMps) {
    CUSPAN_ASSIGN_OR_RETURN(daemon, MpsDaemon::Start(environment));
  }
  std::vector<std::unique_ptr<Actor>> actors;
  for (const Part& part : parts) {
    CUSPAN_ASSIGN_OR_RETURN(std::unique_ptr<Actor> actor,
                            Start(part, way, parts.size(), environment));
    actors.push_back(std::move(actor));
  }
  for (const auto& actor : actors) CUSPAN_RETURN_IF_ERROR(actor->AwaitReady());
  for (const auto& actor : actors) CUSPAN_RETURN_IF_ERROR(actor->Go());
  std::vector<std::string> said;
  for (const auto& actor : actors) {
    if (until_first_ends && !said.empty()) {
      said.push_back(actor->Stop());
      continue;
    }
    CUSPAN_ASSIGN_OR_RETURN(std::string text, actor->AwaitEnd());
    said.push_back(std::move(text));
  }
  return said;
}

// BLOCKS and ROUNDS of a kernel taking `microseconds`. It fills the fraction `fills` of the GPU,
// with `waves` waves of blocks.
std::vector<std::string> Stage::Kernel(double microseconds, double fills, int waves) const {
  if (soft())
    return {std::to_string(
                std::max(1, static_cast<int>(std::lround(microseconds / kSoftBlockMicroseconds)))),
            "1"};
  // A single block has a multiprocessor's units to itself; otherwise eight blocks share them.
  const double rounds = microseconds / waves * 1e6 / nanoseconds_per_1000_ * (fills == 1 ? 1 : 4);
  return {std::to_string(std::max(static_cast<int>(filling_blocks_ * fills * waves), 1)),
          std::to_string(static_cast<int>(rounds))};
}

Part Stage::Batch(const std::string& name, double microseconds, double seconds,
                  std::vector<std::string> terms, int pending, int waves) const {
  const std::vector<std::string> kernel = Kernel(microseconds, 1, waves);
  return {name,
          std::move(terms),
          {"batch", std::to_string(seconds), kernel[0], kernel[1], std::to_string(pending),
           "multiply"}};
}

Part Stage::BatchOf(const std::string& kind, int on_each, double seconds) const {
  const int blocks = soft() ? on_each : filling_blocks_ / kBlocksOfAProcessor * on_each;
  return {Format("{}/{}", kind, on_each),
          {},
          {"batch", std::to_string(seconds), std::to_string(blocks), "0", std::to_string(kPending),
           kind}};
}

Part Stage::Holding(const std::string& name, double microseconds, int shared_kib, double seconds,
                    std::vector<std::string> terms) const {
  const std::vector<std::string> kernel = Kernel(microseconds, 1.0 / kBlocksOfAProcessor, 1);
  return {name,
          std::move(terms),
          {"batch", std::to_string(seconds), kernel[0], kernel[1], "4", "multiply",
           std::to_string(shared_kib)}};
}

Part Stage::Bursts(const std::string& name, int bursts, int kernels, int gap, double microseconds,
                   double fills, std::vector<std::string> terms) const {
  const std::vector<std::string> kernel = Kernel(microseconds, fills, 1);
  return {name,
          std::move(terms),
          {"bursts", std::to_string(bursts), std::to_string(kernels), std::to_string(gap),
           kernel[0], kernel[1]}};
}

void Stage::Add(const std::string& arrangement, const std::string& program,
                const std::string& figure, double value, std::optional<double> alone) {
  rows_.push_back({scenario_, arrangement, program, figure, value,
                   alone && *alone != 0 ? std::optional(value / *alone) : std::nullopt});
}

}  // namespace cuspan::bench::share

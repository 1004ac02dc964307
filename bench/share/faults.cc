#include <signal.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <map>
#include <random>
#include <sstream>
#include <string_view>
#include <thread>

#include "bench/common/child.h"
#include "bench/common/median.h"
#include "bench/common/temporary_folder.h"
#include "bench/share/actor.h"
#include "bench/share/processes.h"
#include "bench/share/stage.h"
#include "common/format.h"

namespace cuspan::bench::share {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t kRuns = 4;
constexpr const char* kMark = "BENCH_SHARE_RUN";
// It remains for some seconds after an agent's death, and does not use the GPU.
constexpr std::string_view kSweeper = "cuspan-sweeper";
// Parameters of each program.
constexpr double kKernelMicroseconds = 200;
constexpr int kPending = 16;
// Limit of all waits. After it, a run counts as stuck and a process or file as left.
constexpr milliseconds kPatience{5'000};
constexpr milliseconds kPollInterval{2};
// Each kill comes after a random time up to this limit.
constexpr milliseconds kAnyTime{200};
// Same as in program.cu: shorter times between kernels are not reported.
constexpr double kShortestMs = 1;

double MillisecondsOf(Clock::duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

// A run of a program reporting the ends of its kernels.
class Beating {
 public:
  static Result<std::unique_ptr<Beating>> Start(const Stage& stage, const Part& part, Way way,
                                                const std::string& mark) {
    Environment environment = stage.environment();
    environment.Set(kMark, mark);
    CUSPAN_ASSIGN_OR_RETURN(std::unique_ptr<Actor> actor,
                            stage.Start(part, way, kRuns, environment));
    return std::unique_ptr<Beating>(new Beating(std::move(actor), mark));
  }
  Status Begin() {
    CUSPAN_RETURN_IF_ERROR(actor_->AwaitReady());
    CUSPAN_RETURN_IF_ERROR(actor_->Go());
    // Waits for its first kernel.
    return AfterOrStuck(Clock::now()).first ? Status::Ok()
                                            : Status::Internal("a run does not start");
  }
  std::vector<Process> processes() const { return ProcessesWith(Format("{}={}", kMark, mark_)); }
  // True if it has a process related to the GPU.
  bool IsThere() const {
    const std::vector<Process> all = processes();
    return std::any_of(all.begin(), all.end(),
                       [](const Process& one) { return one.name != kSweeper; });
  }

  // Time (ms) from `time` to the end of its next kernel. False if none ends within kPatience.
  std::pair<bool, double> AfterOrStuck(Clock::time_point time) {
    const auto at = time.time_since_epoch().count();
    for (;; std::this_thread::sleep_for(kPollInterval)) {
      const bool last = Clock::now() - time >= kPatience || actor_->HasEnded();
      text_ += actor_->ReadSoFar();
      // Each line has the ends of two consecutive kernels.
      for (std::size_t end = 0; (end = text_.find('\n')) != std::string::npos;) {
        std::istringstream line(text_.substr(0, end));
        text_.erase(0, end + 1);
        long long from = 0, to = 0;
        if (line >> from >> to && to > at)
          return {true, from > at ? kShortestMs : static_cast<double>(to - at) / 1e6};
      }
      if (last) return {false, 0};
    }
  }

 private:
  Beating(std::unique_ptr<Actor> actor, std::string mark)
      : actor_(std::move(actor)), mark_(std::move(mark)) {}
  std::unique_ptr<Actor> actor_;
  const std::string mark_;
  std::string text_;
};

// Variable in the environment of the processes of all runs.
constexpr const char* kMarkOfAll = "BENCH_SHARE_RUNS";
std::string EntryOfAll(const std::string& folder) { return Format("{}={}", kMarkOfAll, folder); }

class Kills {
 public:
  Kills(Stage& stage, std::string folder) : stage_(stage), folder_(std::move(folder)) {}

  Status Measure() {
    CUSPAN_ASSIGN_OR_RETURN(const double free_before, FreeMemory());
    CUSPAN_ASSIGN_OR_RETURN(const double alone, BeginAlone());
    for (std::size_t i = 0; i < kRuns; ++i) CUSPAN_RETURN_IF_ERROR(StartOne(i));
    for (int i = 0; i < stage_.options().kills; ++i) CUSPAN_RETURN_IF_ERROR(KillOne());
    for (std::size_t i = 0; i < kRuns; ++i)
      while (Kill(i) == kSweeper)
        ;
    CUSPAN_ASSIGN_OR_RETURN(const double free_after_kills, BeginAlone());
    for (auto& run : runs_) run = nullptr;
    const std::string programs = Format("{} runs, {} kills", kRuns, stage_.options().kills);
    for (const auto& [name, count] : killed_)
      stage_.Add("share", programs, Format("{} killed", name), count);
    stage_.Add("share", programs, "others: p50 ms", after_.empty() ? 0 : Median(after_));
    stage_.Add("share", programs, "others: longest ms", after_.empty() ? 0 : Percentile(after_, 1));
    stage_.Add("share", programs, "others that ended", others_ended_);
    stage_.Add("share", programs, "run is gone: longest s", longest_gone_);
    stage_.Add("alone", "one that shares with nobody", "s until it begins", alone);
    stage_.Add("share", "the same after all were killed", "s until it begins", free_after_kills,
               alone);
    stage_.Add("share", programs, "processes left", Left([&] {
                 return static_cast<double>(ProcessesWith(EntryOfAll(folder_)).size());
               }));
    stage_.Add("share", programs, "files left", Left([&] {
                 return static_cast<double>(
                     std::distance(std::filesystem::directory_iterator(folder_), {}));
               }));
    if (!stage_.soft())
      stage_.Add("share", programs, "MiB of the GPU left", Left([&] {
                   const Result<double> now = FreeMemory();
                   return free_before - (now.ok() ? *now : 0);
                 }));
    return Status::Ok();
  }

 private:
  Part Program() const {
    Part part = stage_.Batch("kernels of 0.2 ms", kKernelMicroseconds, 1, {}, kPending);
    part.arguments = {"beats", part.arguments[2], part.arguments[3], part.arguments[4]};
    return part;
  }

  // Waits until a figure is 0, at most kPatience. Returns its last value.
  template <typename Figure>
  static double Left(const Figure& figure) {
    double left = figure();
    for (const Clock::time_point limit = Clock::now() + kPatience; left > 0 && Clock::now() < limit;
         left = figure())
      std::this_thread::sleep_for(10 * kPollInterval);
    return left;
  }

  // Free memory in MiB, as reported by the driver to a program without cuspan. 0 for a software
  // GPU.
  Result<double> FreeMemory() const {
    if (stage_.soft()) return 0.0;
    CUSPAN_ASSIGN_OR_RETURN(const std::string text,
                            Capture(stage_.Words({"free", {}, {"free"}}, Way::kPlain, 1)));
    return std::atof(text.c_str()) / (1 << 20);
  }

  // Time (s) until a run with exclusive use of the GPU has begun. The run is then ended.
  Result<double> BeginAlone() {
    const Clock::time_point begin = Clock::now();
    CUSPAN_ASSIGN_OR_RETURN(const std::unique_ptr<Beating> one,
                            Beating::Start(stage_, Program(), Way::kAlone, folder_ + "/alone"));
    CUSPAN_RETURN_IF_ERROR(one->Begin());
    return MillisecondsOf(Clock::now() - begin) / 1e3;
  }

  Status StartOne(std::size_t index) {
    CUSPAN_ASSIGN_OR_RETURN(runs_[index], Beating::Start(stage_, Program(), Way::kShare,
                                                         Format("{}/{}", folder_, ++started_)));
    return runs_[index]->Begin();
  }

  // Kills one of the run's processes, and returns its name. Empty if there is none.
  std::string Kill(std::size_t index) {
    const std::vector<Process> all = runs_[index]->processes();
    if (all.empty()) return "";
    const Process& one = all[random_() % all.size()];
    return ::kill(one.pid, SIGKILL) == 0 ? one.name : "";
  }

  // Kills a random process of a random run at a random time. Starts another run in its place.
  Status KillOne() {
    const std::size_t index = random_() % kRuns;
    std::this_thread::sleep_for(kAnyTime * static_cast<double>(random_()) /
                                static_cast<double>(std::mt19937::max()));
    const Clock::time_point at = Clock::now();
    std::string name;
    // The process found may have ended.
    while ((name = Kill(index)).empty())
      if (Clock::now() - at > kPatience) return Status::Internal("a run has no process to kill");
    ++killed_[name];
    if (name != kSweeper) {
      while (runs_[index]->IsThere() && Clock::now() < at + kPatience)
        std::this_thread::sleep_for(kPollInterval);
      longest_gone_ = std::max(longest_gone_, MillisecondsOf(Clock::now() - at) / 1e3);
    }
    for (std::size_t i = 0; i < kRuns; ++i) {
      if (i == index) continue;
      const auto [went_on, after] = runs_[i]->AfterOrStuck(at);
      if (!went_on) {
        ++others_ended_;
        CUSPAN_RETURN_IF_ERROR(StartOne(i));
      } else {
        after_.push_back(after);
      }
    }
    return StartOne(index);
  }

  Stage& stage_;
  const std::string folder_;
  std::array<std::unique_ptr<Beating>, kRuns> runs_;
  std::mt19937 random_{4};
  int started_ = 0;
  std::map<std::string, int> killed_;
  std::vector<double> after_;  // Time from a kill to each other run's next kernel, ms.
  int others_ended_ = 0;
  double longest_gone_ = 0;
};

}  // namespace

// Kills processes of four runs, one after the other, at random times.
Status Faults(Stage& stage) {
  CUSPAN_ASSIGN_OR_RETURN(const TemporaryFolder folder,
                          TemporaryFolder::Create(SettingText(settings::kShareFolder)));
  const Environment before = stage.environment();
  // Separate locks and tables, to see if any are left.
  stage.environment().Set(settings::kLeases.name, "on");
  stage.environment().Set(settings::kLeaseFolder.name, folder.path());
  stage.environment().Set(settings::kShareFolder.name, folder.path());
  stage.environment().Set(kMarkOfAll, folder.path());
  Status measured = Kills(stage, folder.path()).Measure();
  stage.environment() = before;
  return measured;
}

}  // namespace cuspan::bench::share

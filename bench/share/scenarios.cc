#include "bench/share/scenarios.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <sstream>

#include "bench/common/child.h"
#include "bench/common/median.h"
#include "bench/share/actor.h"
#include "common/format.h"
#include "common/settings.h"
#include "protocol/sharing/share_seat.h"
#include "protocol/sharing/share_table.h"

namespace cuspan::bench::share {
namespace {

// Of the software GPU: a block takes as long as it is told.
constexpr int kSoftBlockMicroseconds = 50;
// So many of the batch programs' kernels are launched ahead.
constexpr int kPending = 64;

// How a program is started.
struct Arrangement {
  std::string name;
  bool plain = false;  // Without cuspan.
  bool share = false;
};
const Arrangement kAlone{"alone", false, false};
const Arrangement kPlain{"plain", true, false};
const Arrangement kShare{"share", false, true};

// A program and its terms.
struct Part {
  std::string name;
  std::vector<std::string> terms;      // Options of `cuspan run --share`.
  std::vector<std::string> arguments;  // Of the measuring program.
};

double Percentile(std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  const auto at = static_cast<std::size_t>(part * static_cast<double>(values.size()));
  return values[std::min(at, values.size() - 1)];
}

class Bench {
 public:
  explicit Bench(const Options& options) : options_(options) {}

  Result<std::vector<Row>> Run() {
    CUSPAN_ASSIGN_OR_RETURN(folder_, OwnFolder());
    environment_ = Environment::OfThisProcess();
    if (options_.device == "soft")
      environment_.Set(settings::kSoftRate.name, std::to_string(kSoftBlockMicroseconds));
    CUSPAN_RETURN_IF_ERROR(Calibrate());
    const std::map<std::string, std::function<Status()>> known = {
        {"latency", [this] { return Latency(); }},
        {"throughput", [this] { return Throughput(); }},
        {"fair", [this] { return Fair(); }},
        {"cost", [this] { return Cost(); }},
        {"decision", [this] { return Decision(); }}};
    for (const std::string& scenario : options_.scenarios) {
      const auto found = known.find(scenario);
      if (found == known.end()) return Status::Invalid("unknown scenario '{}'", scenario);
      scenario_ = scenario;
      CUSPAN_RETURN_IF_ERROR(found->second());
    }
    return std::move(rows_);
  }

 private:
  bool soft() const { return options_.device == "soft"; }

  std::vector<std::string> Words(const Part& part, const Arrangement& arrangement,
                                 std::size_t parts) const {
    std::vector<std::string> words;
    if (!arrangement.plain) {
      words = {folder_ + "/../../bin/cuspan", "run", "--gpus", "1", "--device", options_.device};
      if (arrangement.share) {
        words.insert(words.end(),
                     {"--share", "--share-limit", std::to_string(std::max<std::size_t>(parts, 2))});
        words.insert(words.end(), part.terms.begin(), part.terms.end());
      }
      words.emplace_back("--");
    }
    words.push_back(folder_ + "/bench-share-program");
    words.insert(words.end(), part.arguments.begin(), part.arguments.end());
    return words;
  }

  // Runs the programs beside each other, until the first of them ends, or all; what each printed.
  Result<std::vector<std::string>> RunTogether(const std::vector<Part>& parts,
                                               const Arrangement& arrangement,
                                               bool until_first_ends = false) const {
    std::string names;
    for (const Part& part : parts) names += (names.empty() ? "" : " + ") + part.name;
    std::fputs(Format("{}: {}, {}\n", scenario_, names, arrangement.name).c_str(), stderr);
    std::vector<std::unique_ptr<Actor>> actors;
    for (const Part& part : parts) {
      CUSPAN_ASSIGN_OR_RETURN(std::unique_ptr<Actor> actor,
                              Actor::Start(Words(part, arrangement, parts.size()), environment_));
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

  Status Calibrate() {
    if (soft()) return Status::Ok();
    std::vector<std::string> words = Words({"calibrate", {}, {"calibrate"}}, kAlone, 1);
    CUSPAN_ASSIGN_OR_RETURN(const std::string text, Capture(words));
    std::istringstream fields(text);
    if (!(fields >> nanoseconds_per_1000_ >> filling_blocks_) || nanoseconds_per_1000_ <= 0)
      return Status::Internal("the measuring program printed '{}'", text);
    return Status::Ok();
  }
  // BLOCKS and ROUNDS of a kernel that takes so long and fills the GPU so many times, one after the
  // other, or of one that fills a part of it.
  std::vector<std::string> Kernel(double microseconds, bool fills = true, int waves = 1) const {
    if (soft())
      return {std::to_string(std::max(
                  1, static_cast<int>(std::lround(microseconds / kSoftBlockMicroseconds)))),
              "1"};
    // One block a processor has its units to itself, where eight divide them.
    const double rounds = microseconds / waves * 1e6 / nanoseconds_per_1000_ * (fills ? 1 : 4);
    return {std::to_string(fills ? filling_blocks_ * waves : filling_blocks_ / 8),
            std::to_string(static_cast<int>(rounds))};
  }
  Part BatchPart(const std::string& name, double microseconds, double seconds,
                 std::vector<std::string> terms = {}, int pending = kPending, int waves = 1) const {
    const std::vector<std::string> kernel = Kernel(microseconds, true, waves);
    return {name,
            std::move(terms),
            {"batch", std::to_string(seconds), kernel[0], kernel[1], std::to_string(pending)}};
  }
  Part BurstPart(const std::string& name, int bursts, int kernels, int gap, double microseconds,
                 bool fills, std::vector<std::string> terms = {}) const {
    const std::vector<std::string> kernel = Kernel(microseconds, fills);
    return {name,
            std::move(terms),
            {"bursts", std::to_string(bursts), std::to_string(kernels), std::to_string(gap),
             kernel[0], kernel[1]}};
  }

  void Add(const std::string& arrangement, const std::string& program, const std::string& figure,
           double value, std::optional<double> alone = std::nullopt) {
    rows_.push_back({scenario_, arrangement, program, figure, value,
                     alone && *alone != 0 ? std::optional(value / *alone) : std::nullopt});
  }

  // Kernels by time, as a batch program tells.
  using Progress = std::vector<std::pair<double, double>>;
  static Progress ReadProgress(const std::string& text) {
    Progress progress = {{0, 0}};
    std::istringstream lines(text);
    for (double time = 0, kernels = 0; lines >> time >> kernels;)
      progress.emplace_back(time / 1e9, kernels);
    return progress;
  }
  // A second, between two times.
  static double Rate(const Progress& progress, double from, double to) {
    const auto at = [&](double time) {
      const auto found = std::find_if(progress.begin(), progress.end(),
                                      [&](const auto& one) { return one.first >= time; });
      return found == progress.end() ? progress.back() : *found;
    };
    const auto first = at(from), last = at(to);
    return last.first > first.first ? (last.second - first.second) / (last.first - first.first) : 0;
  }
  static std::vector<double> ReadTimes(const std::string& text) {
    std::vector<double> times;
    std::istringstream lines(text);
    for (double time = 0; lines >> time;) times.push_back(time);
    return times;
  }

  std::vector<Arrangement> Together() const {
    return soft() ? std::vector{kShare} : std::vector{kPlain, kShare};
  }

  // A program of high priority that works in bursts, beside one that always has work.
  Status Latency() {
    struct Case {
      const char* name;
      int kernels, gap;
      double microseconds;
      bool fills;
    };
    for (const Case& one : {Case{"bursts", 40, 40, 250, true}, Case{"singles", 1, 3, 100, false}}) {
      const int bursts = one.kernels == 1 ? options_.bursts * 10 : options_.bursts;
      const Part burst = BurstPart(one.name, bursts, one.kernels, one.gap, one.microseconds,
                                   one.fills, {"--priority", "high"});
      CUSPAN_ASSIGN_OR_RETURN(const std::vector<std::string> alone, RunTogether({burst}, kAlone));
      const std::vector<double> times = ReadTimes(alone[0]);
      if (times.empty()) return Status::Internal("{}: nothing was measured", one.name);
      const double p50 = Median(times), p99 = Percentile(times, 0.99);
      Add("alone", one.name, "p50 us", p50);
      Add("alone", one.name, "p99 us", p99);
      const double period = one.gap * 1e-3 + p50 * 1e-6;
      const double took = period * bursts;
      // The long kernel is of one wave of blocks, or of twenty.
      for (const auto& [length, waves] :
           {std::pair(200.0, 1), std::pair(20'000.0, 20), std::pair(20'000.0, 1)}) {
        const std::string name = Format("batch {} ms{}", length / 1000,
                                        waves > 1 ? Format(", {} waves", waves) : std::string());
        const int pending = length > 1000 ? 4 : kPending;
        const Part alone_batch = BatchPart(name, length, options_.seconds, {}, pending, waves);
        CUSPAN_ASSIGN_OR_RETURN(const std::vector<std::string> batch_alone,
                                RunTogether({alone_batch}, kAlone));
        const double rate = Rate(ReadProgress(batch_alone[0]), 0.5, options_.seconds);
        // What the bursts leave of the GPU's time: all, for what does not fill it.
        const double left = 1 - p50 * 1e-6 / period;
        for (const Arrangement& arrangement : Together()) {
          // It is ended with the bursts.
          const Part batch =
              BatchPart(name, length, took * 100 + 60, {"--priority", "low"}, pending, waves);
          CUSPAN_ASSIGN_OR_RETURN(const std::vector<std::string> said,
                                  RunTogether({burst, batch}, arrangement, true));
          const std::vector<double> beside = ReadTimes(said[0]);
          const std::string both = Format("{} beside {}", one.name, name);
          Add(arrangement.name, both, "p50 us", Median(beside), p50);
          Add(arrangement.name, both, "p99 us", Percentile(beside, 0.99), p99);
          Add(arrangement.name, both, "batch kernels/s", Rate(ReadProgress(said[1]), 0.2, took),
              rate * left);
        }
      }
    }
    return Status::Ok();
  }

  // Programs that always have work: what each gets of what it has alone, and the sum.
  Status Throughput() {
    CUSPAN_ASSIGN_OR_RETURN(const double short_rate, AloneRate(200));
    CUSPAN_ASSIGN_OR_RETURN(const double long_rate, AloneRate(2000));
    for (const auto& [first, second] : {std::pair(200.0, 200.0), std::pair(200.0, 2000.0)}) {
      const std::vector<Part> parts = {
          BatchPart(Format("batch {} ms", first / 1000), first, options_.seconds),
          BatchPart(Format("batch {} ms", second / 1000), second, options_.seconds)};
      for (const Arrangement& arrangement : Together()) {
        CUSPAN_ASSIGN_OR_RETURN(const std::vector<std::string> said,
                                RunTogether(parts, arrangement));
        double sum = 0;
        const std::string both = parts[0].name + " beside " + parts[1].name;
        for (std::size_t i = 0; i < 2; ++i) {
          const double alone = (i == 0 ? first : second) == 200.0 ? short_rate : long_rate;
          const double rate = Rate(ReadProgress(said[i]), 0.5, options_.seconds);
          sum += rate / alone;
          Add(arrangement.name, both, i == 0 ? "first kernels/s" : "second kernels/s", rate, alone);
        }
        Add(arrangement.name, both, "sum of both parts", sum);
      }
    }
    return Status::Ok();
  }
  Result<double> AloneRate(double microseconds) {
    const Part part =
        BatchPart(Format("batch {} ms", microseconds / 1000), microseconds, options_.seconds);
    CUSPAN_ASSIGN_OR_RETURN(const std::vector<std::string> said, RunTogether({part}, kAlone));
    const double rate = Rate(ReadProgress(said[0]), 0.5, options_.seconds);
    Add("alone", part.name, "kernels/s", rate);
    return rate;
  }

  // Three programs with quotas, their kernels of very different lengths.
  Status Fair() {
    struct Case {
      double microseconds;
      int quota;
      int pending;
    };
    const Case cases[] = {{soft() ? 100.0 : 20.0, 50, 256}, {1000, 30, 32}, {20'000, 20, 4}};
    const double seconds = std::max(options_.seconds * 2, 10.0);
    std::vector<Part> parts;
    std::vector<double> alone;
    for (const Case& one : cases) {
      const std::string name = Format("batch {} ms", one.microseconds / 1000);
      CUSPAN_ASSIGN_OR_RETURN(
          const std::vector<std::string> said,
          RunTogether({BatchPart(name, one.microseconds, options_.seconds, {}, one.pending)},
                      kAlone));
      alone.push_back(Rate(ReadProgress(said[0]), 0.5, options_.seconds));
      parts.push_back(BatchPart(name, one.microseconds, seconds,
                                {"--quota", Format("{}%", one.quota)}, one.pending));
    }
    CUSPAN_ASSIGN_OR_RETURN(const std::vector<std::string> said, RunTogether(parts, kShare));
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const Progress progress = ReadProgress(said[i]);
      double worst = 0;
      for (double from = 0.5; from + 5 <= seconds - 0.5; from += 0.5) {
        const double part = Rate(progress, from, from + 5) / alone[i] * 100;
        if (std::abs(part - cases[i].quota) > std::abs(worst - cases[i].quota) || worst == 0)
          worst = part;
      }
      Add("share", parts[i].name, Format("% of {}, whole", cases[i].quota),
          Rate(progress, 0.5, seconds - 0.5) / alone[i] * 100);
      Add("share", parts[i].name, Format("% of {}, worst 5 s", cases[i].quota), worst);
    }
    return Status::Ok();
  }

  // What --share costs a run that is alone.
  Status Cost() {
    for (const double length : {5.0, 100.0, 5000.0}) {
      const std::string name = Format("batch {} ms", length / 1000);
      const int pending = length > 1000 ? 8 : length < 50 ? 1000 : kPending;
      double rates[2] = {};
      std::vector<double> by_round[2];
      for (int round = 0; round < 3; ++round)
        for (const Arrangement& arrangement : {kAlone, kShare}) {
          CUSPAN_ASSIGN_OR_RETURN(
              const std::vector<std::string> said,
              RunTogether({BatchPart(name, length, options_.seconds / 2, {}, pending)},
                          arrangement));
          by_round[arrangement.share ? 1 : 0].push_back(
              Rate(ReadProgress(said[0]), 0.3, options_.seconds / 2));
        }
      for (int i = 0; i < 2; ++i) rates[i] = Median(by_round[i]);
      Add("alone", name, "kernels/s", rates[0]);
      Add("share, alone", name, "kernels/s", rates[1], rates[0]);
    }
    return Status::Ok();
  }

  // What it takes to decide whose turn it is, with eight sessions of as many runs.
  Status Decision() {
    std::string folder = std::string(SettingText(settings::kShareFolder)) + "/cuspan-bench-XXXXXX";
    if (::mkdtemp(folder.data()) == nullptr)
      return Status::Unavailable("{}: {}", folder, std::strerror(errno));
    Status measured = DecideIn(folder);
    std::filesystem::remove_all(folder);
    return measured;
  }
  Status DecideIn(const std::string& folder) {
    constexpr std::uint32_t kRuns = 8;
    constexpr int kDecisions = 20'000;
    std::vector<ShareTable> tables;
    std::vector<std::unique_ptr<ShareSeat>> seats;
    tables.reserve(kRuns);
    for (std::uint32_t i = 0; i < kRuns; ++i) {
      CUSPAN_ASSIGN_OR_RETURN(ShareTable table, ShareTable::OpenOrCreate(folder, "host", "gpu"));
      const std::string run = std::to_string(i);
      ShareTerms terms;
      terms.shared = true;
      terms.quota = 100;
      terms.most_runs = kRuns;
      CUSPAN_RETURN_IF_ERROR(table.JoinRun(run, "user", "program", terms));
      CUSPAN_ASSIGN_OR_RETURN(const std::uint32_t place, table.FindRun(run));
      CUSPAN_ASSIGN_OR_RETURN(UniqueFd fd, table.OpenAgain());
      CUSPAN_ASSIGN_OR_RETURN(std::unique_ptr<ShareSeat> seat,
                              ShareSeat::Take(std::move(fd), place));
      tables.push_back(std::move(table));
      seats.push_back(std::move(seat));
    }
    for (const auto& seat : seats) seat->SetWants();
    std::vector<double> took;
    for (int i = 0; i < kDecisions; ++i) {
      ShareSeat& seat = *seats[static_cast<std::size_t>(i) % kRuns];
      const std::uint64_t begin = ShareSeat::Now();
      CUSPAN_RETURN_IF_ERROR(seat.Decide());
      took.push_back(static_cast<double>(ShareSeat::Now() - begin) / 1000);
    }
    Add("share", "8 sessions", "decision, p50 us", Median(took));
    Add("share", "8 sessions", "decision, p99 us", Percentile(took, 0.99));
    return Status::Ok();
  }

  const Options& options_;
  std::string folder_;
  std::string scenario_;
  Environment environment_ = Environment::OfThisProcess();
  double nanoseconds_per_1000_ = 0;
  int filling_blocks_ = 0;
  std::vector<Row> rows_;
};

}  // namespace

Result<std::vector<Row>> Measure(const Options& options) { return Bench(options).Run(); }

}  // namespace cuspan::bench::share

// Where programs that share a GPU are measured: they are started beside each other, in several
// arrangements, and tell how far they have come.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/share/actor.h"
#include "bench/share/scenarios.h"
#include "common/settings.h"
#include "launcher/host/environment.h"

namespace cuspan::bench::share {

// How programs are started.
enum class Way { kAlone, kPlain, kMps, kShare, kPair };
// alone, plain (without cuspan), mps (without cuspan, by a daemon of the benchmark's), share, pair.
const char* NameOf(Way way);

// A program and its terms.
struct Part {
  std::string name;
  std::vector<std::string> terms;      // Options of `cuspan run --share`.
  std::vector<std::string> arguments;  // Of the measuring program.
};

// Kernels by time (s), as a batch program tells.
using Progress = std::vector<std::pair<double, double>>;
Progress ReadProgress(const std::string& text);
// A second, between two times.
double Rate(const Progress& progress, double from, double to);
// What bursts tell.
std::vector<double> ReadTimes(const std::string& text);
// By the nearest rank.
double Percentile(std::vector<double> values, double part);

class Stage {
 public:
  // So many of the batch programs' kernels are launched ahead.
  static constexpr int kPending = 64;
  static constexpr int kBlocksOfAProcessor = 8;  // As program.cu has them.

  // Finds out how fast the GPU is. `options` outlives it.
  static Result<Stage> Open(const Options& options);

  const Options& options() const { return *options_; }
  // Of the GPU, where it is none in software.
  int processors() const { return filling_blocks_ / kBlocksOfAProcessor; }
  int shared_kib() const { return shared_kib_; }  // A block can have so much.
  bool soft() const { return options_->device == "soft"; }
  void Begin(const std::string& scenario) { scenario_ = scenario; }
  // Of the programs that are started from now on.
  Environment& environment() { return environment_; }
  const Environment& environment() const { return environment_; }

  // A program that always has kernels of that length, each of which fills the GPU so many times.
  Part Batch(const std::string& name, double microseconds, double seconds,
             std::vector<std::string> terms = {}, int pending = kPending, int waves = 1) const;
  // One that always has kernels of a kind (program.cu), so many blocks of it on a processor.
  Part BatchOf(const std::string& kind, int on_each, double seconds) const;
  // One that always has a kernel of that length, a block on each processor, which holds so much
  // shared memory.
  Part Holding(const std::string& name, double microseconds, int shared_kib, double seconds,
               std::vector<std::string> terms) const;
  // One that has some kernels at a time, each of which fills a part of the GPU, and pauses between
  // (ms).
  Part Bursts(const std::string& name, int bursts, int kernels, int gap, double microseconds,
              double fills, std::vector<std::string> terms = {}) const;

  // The command that runs the program where `parts` are beside each other.
  std::vector<std::string> Words(const Part& part, Way way, std::size_t parts) const;
  // Starts it.
  Result<std::unique_ptr<Actor>> Start(const Part& part, Way way, std::size_t parts,
                                       const Environment& environment) const;
  // Runs the programs beside each other, until the first of them ends, or all; what each printed.
  Result<std::vector<std::string>> Run(const std::vector<Part>& parts, Way way,
                                       bool until_first_ends = false) const;

  void Add(const std::string& arrangement, const std::string& program, const std::string& figure,
           double value, std::optional<double> alone = std::nullopt);
  std::vector<Row> TakeRows() { return std::move(rows_); }

 private:
  explicit Stage(const Options& options) : options_(&options) {}
  std::vector<std::string> Kernel(double microseconds, double fills, int waves) const;
  Status Calibrate();

  const Options* options_;
  std::string folder_;
  std::string scenario_;
  Environment environment_ = Environment::OfThisProcess();
  double nanoseconds_per_1000_ = 0;
  int filling_blocks_ = 0;
  int shared_kib_ = 0;
  std::vector<Row> rows_;
};

// The scenarios.
Status Latency(Stage& stage);
Status Throughput(Stage& stage);
Status Fair(Stage& stage);
Status Cost(Stage& stage);
Status Pairs(Stage& stage);
Status Matrix(Stage& stage);
Status Decision(Stage& stage);
Status Swap(Stage& stage);
Status Faults(Stage& stage);
Status Change(Stage& stage);

}  // namespace cuspan::bench::share

// Execution of programs sharing a GPU. They are started together in several arrangements and report
// their progress.
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

// Arrangement of the programs.
enum class Way { kAlone, kPlain, kMps, kShare, kPair };
// alone, plain (without cuspan), mps (without cuspan, with a daemon of the benchmark), share, pair.
const char* NameOf(Way way);

// A program and its sharing options.
struct Part {
  std::string name;
  std::vector<std::string> terms;      // Options of `cuspan run --share`.
  std::vector<std::string> arguments;  // Arguments of the measuring program.
};

// Completed kernels over time (s), as printed by a batch program.
using Progress = std::vector<std::pair<double, double>>;
Progress ReadProgress(const std::string& text);
// Kernels per second between two times.
double Rate(const Progress& progress, double from, double to);
// Output of bursts, in µs.
std::vector<double> ReadTimes(const std::string& text);
// Nearest-rank percentile.
double Percentile(std::vector<double> values, double part);

class Stage {
 public:
  // Number of kernels launched ahead by batch programs.
  static constexpr int kPending = 64;
  static constexpr int kBlocksOfAProcessor = 8;  // Same as in program.cu.

  // Measures the speed of the GPU. `options` must outlive the result.
  static Result<Stage> Open(const Options& options);

  const Options& options() const { return *options_; }
  // Multiprocessors of the GPU. Not valid for a software GPU.
  int processors() const { return filling_blocks_ / kBlocksOfAProcessor; }
  int shared_kib() const { return shared_kib_; }  // Maximum per block.
  bool soft() const { return options_->device == "soft"; }
  void Begin(const std::string& scenario) { scenario_ = scenario; }
  // Environment of programs started from now on.
  Environment& environment() { return environment_; }
  const Environment& environment() const { return environment_; }

  // A program always busy with kernels of this duration, each with `waves` waves of blocks filling
  // the GPU.
  Part Batch(const std::string& name, double microseconds, double seconds,
             std::vector<std::string> terms = {}, int pending = kPending, int waves = 1) const;
  // A program always busy with kernels of a kind (program.cu), with `on_each` blocks per
  // multiprocessor.
  Part BatchOf(const std::string& kind, int on_each, double seconds) const;
  // A program always busy with a kernel of this duration, with one block per multiprocessor holding
  // `shared_kib` KiB of shared memory.
  Part Holding(const std::string& name, double microseconds, int shared_kib, double seconds,
               std::vector<std::string> terms) const;
  // A program launching `kernels` kernels at a time, each filling a fraction of the GPU, with
  // pauses of `gap` ms.
  Part Bursts(const std::string& name, int bursts, int kernels, int gap, double microseconds,
              double fills, std::vector<std::string> terms = {}) const;

  // Command running the program in an arrangement of `parts` programs.
  std::vector<std::string> Words(const Part& part, Way way, std::size_t parts) const;
  // Starts this command.
  Result<std::unique_ptr<Actor>> Start(const Part& part, Way way, std::size_t parts,
                                       const Environment& environment) const;
  // Runs the programs together until the first one ends, or all. Returns their outputs.
  Result<std::vector<std::string>> Run(const std::vector<Part>& parts, Way way,
                                       bool until_first_ends = false) const;

  void Add(const std::string& arrangement, const std::string& program, const std::string& figure,
           double value, std::optional<double> alone = std::nullopt);
  std::vector<Row> ExtractRows() { return std::move(rows_); }

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

// --- Scenarios
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

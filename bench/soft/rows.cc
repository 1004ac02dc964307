#include "bench/soft/rows.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>

#include "bench/common/temporary_folder.h"
#include "bench/soft/server.h"
#include "common/format.h"

namespace cuspan::bench::soft {
namespace {

using Clock = std::chrono::steady_clock;

// A row taking longer is not repeated.
constexpr std::chrono::seconds kPatience{20};

constexpr const char* kVector = "vector";
constexpr const char* kThread = "thread";
constexpr const char* kFirst = "first";
constexpr const char* kLast = "last";

std::string FirstLaunchTitle(TaskId task, const char* how) {
  return Format("first launch of a kernel of {} instructions, {}", FirstLaunchInstructions(task),
                how);
}
std::string FirstLaunchTitle(const char* how) {
  return FirstLaunchTitle(TaskId::kFirstLaunch, how);
}
std::string CompileTitle(const char* how) {
  return FirstLaunchTitle(TaskId::kFirstLargeLaunch, how);
}

// The limits are for a machine with AVX-512.
constexpr RowSpec kRows[] = {
    {"matmul32", [] { return std::string("matmul 1024^3, tiles of 32 x 32"); }, "x", 1.0, 0.6,
     false},
    {"matmul16", [] { return std::string("matmul 1024^3, tiles of 16 x 16 (C++: 32 x 32)"); }, "x",
     1.5, 1.0, false},
    {"add", [] { return std::string("vector add, 16 Mi floats, one a thread"); }, "x", 1.15, 1.05,
     false},
    {"sum-striding", [] { return std::string("sum of 16 Mi floats, shuffles, grid-stride"); }, "x",
     0.8, 0.5, false},
    {"sum-each", [] { return std::string("sum of 16 Mi floats, shuffles, one a thread"); }, "x",
     4.5, 2.5, false},
    {"fft", [] { return std::string("FFT of 1024 points x 4096, shared memory"); }, "x", 1.0, 0.6,
     false},
    {"collatz", [] { return std::string("divergent integer loop (Collatz, 1 Mi)"); }, "x", 0.4, 0.2,
     false},
    {"queens", [] { return std::string("backtracking, a stack of 4 KiB a thread"); }, "x", 3.0, 2.0,
     false},
    {"machines", [] { return std::string("state machines, a stack of 1 KiB a thread"); }, "x", 3.0,
     2.0, false},
    {"solve", [] { return std::string("elimination of 6 x 6, unrolled in one thread"); }, "x", 3.0,
     2.0, false},
    {"fft-unrolled", [] { return std::string("FFT of 32 points, unrolled in one thread"); }, "x",
     3.0, 2.0, false},
    {"barrier", [] { return std::string("barrier of 1024 threads, vector model"); }, "us", 0.6,
     0.25, false},
    {"barrier-fallback", [] { return std::string("barrier of 1024 threads, fallback"); }, "us", 15,
     10, false},
    {"launch-cold", [] { return FirstLaunchTitle("cold"); }, "ms", 200, 100, false},
    {"launch-disk", [] { return FirstLaunchTitle("from disk"); }, "ms", 2, 1, false},
    {"compile-cold", [] { return CompileTitle("waits"); }, "ms", 10000, 5000, false},
    {"compile-tiered", [] { return CompileTitle("cold"); }, "ms", 2000, 200, false},
    {"compile-disk", [] { return CompileTitle("from disk"); }, "ms", 20, 10, false},
    {"load", [] { return std::string("load of a PTX module of 20 MB"); }, "ms", 50, 20, false},
    {"workers", [] { return std::string("two workers against one (matmul 32 x 32)"); }, "x", 1.7,
     1.9, true},
    {"memory", [] { return std::string("memory of a resident block of 1024 threads"); }, "MiB", 1,
     1, false},
    {"memory-fallback", [] { return std::string("the same, fallback"); }, "MiB", 16, 16, false},
};

Samples Summarise(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  const double median =
      values.size() % 2 != 0 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  return {values.front(), median};
}

class Measurer {
 public:
  Measurer(const MeasureOptions& options, const std::string& cache)
      : options_(options), cache_(cache) {}

  RowResult Row(const RowSpec& spec) {
    RowResult result;
    result.spec = &spec;
    result.status = Fill(spec.key, result);
    return result;
  }

 private:
  struct Measured {  // One side of a comparison.
    ServerOptions server;
    TaskId task;
    Side side;
  };

  ServerOptions Common() const { return {options_.threads, "", cache_}; }

  Status Fill(std::string_view key, RowResult& result) {
    if (key == "matmul32") return Compare(TaskId::kMultiply32, result);
    if (key == "matmul16") return CompareWith(TaskId::kMultiply32, TaskId::kMultiply16, result);
    if (key == "add") return Compare(TaskId::kAdd, result);
    if (key == "sum-striding") return Compare(TaskId::kSumStriding, result);
    if (key == "sum-each") return Compare(TaskId::kSumEach, result);
    if (key == "fft") return Compare(TaskId::kTransform, result);
    if (key == "collatz") return Compare(TaskId::kCountSteps, result);
    if (key == "queens") return Compare(TaskId::kCountQueens, result);
    if (key == "machines") return Compare(TaskId::kRunMachines, result);
    if (key == "barrier") return Alone({1, kVector, cache_}, TaskId::kBarrier, 1e6, result);
    if (key == "barrier-fallback")
      return Alone({1, kThread, cache_}, TaskId::kBarrier, 1e6, result);
    if (key == "solve") return Compare(TaskId::kSolveSystems, result);
    if (key == "fft-unrolled") return Compare(TaskId::kTransformPoints, result);
    if (key == "launch-cold") return FirstLaunch(TaskId::kFirstLaunch, true, "", result);
    if (key == "launch-disk") return FirstLaunch(TaskId::kFirstLaunch, false, "", result);
    if (key == "compile-cold") return FirstLaunch(TaskId::kFirstLargeLaunch, true, kLast, result);
    if (key == "compile-tiered") return TieredLaunch(result);
    if (key == "compile-disk") return FirstLaunch(TaskId::kFirstLargeLaunch, false, kLast, result);
    if (key == "load") return Alone(Common(), TaskId::kLoadModule, 1e3, result);
    if (key == "workers") return Workers(result);
    if (key == "memory") return Memory(kVector, result);
    return Memory(kThread, result);
  }

  Result<Server*> ServerOf(const ServerOptions& options) {
    std::unique_ptr<Server>& server = servers_[options];
    if (server == nullptr) {
      CUSPAN_ASSIGN_OR_RETURN(server, Server::Start(options));
    }
    return server.get();
  }

  // Runs both sides alternately.
  Status Interleave(const Measured& a, const Measured& b, Samples* samples_a, Samples* samples_b) {
    std::vector<double> values[2];
    const Clock::time_point start = Clock::now();
    for (int i = 0; i == 0 || (i < options_.repetitions && Clock::now() - start < kPatience); ++i) {
      for (const int which : {0, 1}) {
        const Measured& one = which == 0 ? a : b;
        CUSPAN_ASSIGN_OR_RETURN(double value, Once(one));
        values[which].push_back(value);
      }
    }
    *samples_a = Summarise(std::move(values[0]));
    *samples_b = Summarise(std::move(values[1]));
    return Status::Ok();
  }

  Result<double> Once(const Measured& one) {
    CUSPAN_ASSIGN_OR_RETURN(auto* server, ServerOf(one.server));
    Result<double> value = server->Run(one.task, one.side);
    if (!value.ok()) servers_.erase(one.server);  // It may have ended: the next row starts another.
    return value;
  }

  Status Compare(TaskId task, RowResult& result) {
    Samples ours, reference;
    CUSPAN_RETURN_IF_ERROR(
        Interleave({Common(), task, Side::kGpu}, {Common(), task, Side::kHost}, &ours, &reference));
    SetRatio(ours, reference, result);
    return Status::Ok();
  }

  // Compares with the host's time of another task. The host uses its own process, so tasks are not
  // prepared again for each repetition.
  Status CompareWith(TaskId host_task, TaskId gpu_task, RowResult& result) {
    ServerOptions host = Common();
    host.model = "auto";  // The default, written out: a different key with the same settings.
    Samples ours, reference;
    CUSPAN_RETURN_IF_ERROR(Interleave({Common(), gpu_task, Side::kGpu},
                                      {host, host_task, Side::kHost}, &ours, &reference));
    SetRatio(ours, reference, result);
    return Status::Ok();
  }

  static void SetRatio(const Samples& ours, const Samples& reference, RowResult& result) {
    result.ours = ours;
    result.reference = reference;
    result.measured = ours.least / reference.least;
  }

  Status Alone(const ServerOptions& server, TaskId task, double scale, RowResult& result) {
    std::vector<double> values;
    for (int i = 0; i < options_.repetitions; ++i) {
      CUSPAN_ASSIGN_OR_RETURN(double value, Once({server, task, Side::kGpu}));
      values.push_back(value);
    }
    result.ours = Summarise(std::move(values));
    result.measured = result.ours->least * scale;
    return Status::Ok();
  }

  // Compares with a launch using the first tier's code only.
  Status TieredLaunch(RowResult& result) {
    RowResult first;
    CUSPAN_RETURN_IF_ERROR(FirstLaunch(TaskId::kFirstLargeLaunch, true, kFirst, first));
    result.reference = first.ours;
    result.reference_name = "the first tier alone";
    return FirstLaunch(TaskId::kFirstLargeLaunch, true, "", result);
  }

  // Each launch uses a new process. Cold ones have an empty folder of compiled kernels.
  Status FirstLaunch(TaskId task, bool cold, const char* tier, RowResult& result) {
    CUSPAN_ASSIGN_OR_RETURN(TemporaryFolder filled,
                            TemporaryFolder::Create(std::filesystem::temp_directory_path()));
    std::vector<double> values;
    const int unused = cold ? 0 : 1;  // The first run fills the folder.
    for (int i = 0; i < options_.repetitions + unused; ++i) {
      CUSPAN_ASSIGN_OR_RETURN(TemporaryFolder empty,
                              TemporaryFolder::Create(std::filesystem::temp_directory_path()));
      const std::string& folder = cold ? empty.path() : filled.path();
      CUSPAN_ASSIGN_OR_RETURN(std::unique_ptr<Server> server,
                              Server::Start({options_.threads, "", folder, tier}));
      CUSPAN_ASSIGN_OR_RETURN(double value, server->Run(task, Side::kGpu));
      if (i >= unused) values.push_back(value);
    }
    result.ours = Summarise(std::move(values));
    result.measured = result.ours->least * 1e3;
    return Status::Ok();
  }

  Status Workers(RowResult& result) {
    Samples one, two;
    CUSPAN_RETURN_IF_ERROR(Interleave({{2, "", cache_}, TaskId::kMultiply32, Side::kGpu},
                                      {{1, "", cache_}, TaskId::kMultiply32, Side::kGpu}, &two,
                                      &one));
    result.ours = two;
    result.reference = one;
    result.reference_name = "one worker";
    result.measured = one.least / two.least;
    return Status::Ok();
  }

  Status Memory(const char* model, RowResult& result) {
    CUSPAN_ASSIGN_OR_RETURN(std::unique_ptr<Server> server, Server::Start({1, model, cache_}));
    CUSPAN_ASSIGN_OR_RETURN(double bytes, server->Run(TaskId::kResidentMemory, Side::kGpu));
    result.measured = bytes / (1 << 20);
    return Status::Ok();
  }

  const MeasureOptions& options_;
  const std::string cache_;
  std::map<ServerOptions, std::unique_ptr<Server>> servers_;
};

}  // namespace

std::span<const RowSpec> AllRows() { return kRows; }

bool Names(std::string_view key, const RowSpec& row) {
  const std::string_view own = row.key;
  return own == key || (own.starts_with(key) && own.substr(key.size()).starts_with('-'));
}

Verdict Judge(const RowResult& result) {
  if (!result.status.ok()) return Verdict::kFailed;
  const RowSpec& spec = *result.spec;
  const auto reaches = [&](double bar) {
    return spec.more_is_better ? result.measured >= bar : result.measured <= bar;
  };
  return reaches(spec.aim) ? Verdict::kAim : reaches(spec.must) ? Verdict::kMust : Verdict::kMissed;
}

Status Measure(const MeasureOptions& options, const std::function<void(const RowResult&)>& tell) {
  CUSPAN_ASSIGN_OR_RETURN(TemporaryFolder cache,
                          TemporaryFolder::Create(std::filesystem::temp_directory_path()));
  Measurer measurer(options, cache.path());
  for (const RowSpec& spec : kRows) {
    const bool wanted = std::any_of(options.keys.begin(), options.keys.end(),
                                    [&](const std::string& key) { return Names(key, spec); });
    if (options.keys.empty() || wanted) tell(measurer.Row(spec));
  }
  return Status::Ok();
}

}  // namespace cuspan::bench::soft

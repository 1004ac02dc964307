// cuspan bench soft: speed of the software GPU, compared with plain C++ on the same cores.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "bench/common/command.h"
#include "bench/common/origin.h"
#include "bench/soft/rows.h"
#include "common/format.h"

namespace cuspan::bench::soft {
namespace {

struct Options {
  MeasureOptions measure;
  std::string json_path;
  bool list = false;
};

const char* VectorInstructions() {
  if (__builtin_cpu_supports("avx512f")) return "AVX-512";
  if (__builtin_cpu_supports("avx2")) return "AVX2";
  return "no AVX2";
}

const char* Word(Verdict verdict) {
  switch (verdict) {
    case Verdict::kAim:
      return "aim met";
    case Verdict::kMust:
      return "met";
    case Verdict::kMissed:
      return "MISSED";
    default:
      return "FAILED";
  }
}

std::string Milliseconds(const std::optional<Samples>& samples) {
  if (!samples) return "";
  const auto one = [](double seconds) {
    const double value = seconds * 1e3;
    return Format("{:.{}f}", value, value >= 100 ? 0 : value >= 10 ? 1 : value >= 1 ? 2 : 4);
  };
  return one(samples->least) + " / " + one(samples->median);
}

void PrintHeader(const Options& options) {
  std::string text =
      Format("software GPU against plain C++ -O2; {} {}, {}; minimum / median of {} in ms\n",
             options.measure.threads, options.measure.threads == 1 ? "thread" : "threads",
             VectorInstructions(), options.measure.repetitions);
  if (!__builtin_cpu_supports("avx512f"))
    text += "the limits are for a machine with AVX-512, but this one has none\n";
  text += Format("{:<58} {:>17} {:>17} {:>11} {:>6} {:>5}\n", "", "ours", "C++", "measured", "must",
                 "aim");
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

void Print(const RowResult& result) {
  const RowSpec& spec = *result.spec;
  std::string text;
  if (result.status.ok()) {
    const std::string measured =
        Format("{:.{}f} {:<3}", result.measured, result.measured >= 100 ? 0 : 2, spec.unit);
    text = Format("{:<58} {:>17} {:>17} {:>11} {:>6} {:>5}  {}\n", spec.title(),
                  Milliseconds(result.ours), Milliseconds(result.reference), measured,
                  Format("{:g}", spec.must), Format("{:g}", spec.aim), Word(Judge(result)));
  } else {
    text = Format("{:<58} FAILED: {}\n", spec.title(), result.status.message());
  }
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

nlohmann::json Json(const RowResult& result) {
  const RowSpec& spec = *result.spec;
  nlohmann::json row = {{"row", spec.key},
                        {"title", spec.title()},
                        {"unit", spec.unit},
                        {"must", spec.must},
                        {"aim", spec.aim},
                        {"more_is_better", spec.more_is_better},
                        {"verdict", Word(Judge(result))}};
  if (!result.status.ok()) {
    row["error"] = result.status.message();
    return row;
  }
  row["measured"] = result.measured;
  const auto seconds = [](const Samples& samples) {
    return nlohmann::json{{"minimum", samples.least}, {"median", samples.median}};
  };
  if (result.ours) row["ours_seconds"] = seconds(*result.ours);
  if (result.reference) {
    row["reference_seconds"] = seconds(*result.reference);
    row["reference"] = result.reference_name.empty() ? "C++" : result.reference_name;
  }
  return row;
}

Status Check(const Options& options) {
  for (const std::string& key : options.measure.keys) {
    const auto rows = AllRows();
    if (std::none_of(rows.begin(), rows.end(),
                     [&](const RowSpec& spec) { return Names(key, spec); }))
      return Status::Invalid("unknown row '{}'; see cuspan bench soft --list", key);
  }
  return Status::Ok();
}

// True if every row could be measured.
Result<bool> Run(const Options& options, const Origin& origin) {
  CUSPAN_RETURN_IF_ERROR(Check(options));
  if (options.list) {
    for (const RowSpec& spec : AllRows())
      std::fputs(Format("{:<18} {}\n", spec.key, spec.title()).c_str(), stdout);
    return true;
  }
  CUSPAN_RETURN_IF_ERROR(MakeFiles({options.json_path}));
  PrintHeader(options);
  bool all_measured = true;
  nlohmann::json rows = nlohmann::json::array();
  CUSPAN_RETURN_IF_ERROR(Measure(options.measure, [&](const RowResult& result) {
    Print(result);
    rows.push_back(Json(result));
    all_measured = all_measured && result.status.ok();
  }));
  nlohmann::ordered_json document = JsonHead(origin);
  document["threads"] = options.measure.threads;
  document["vector_instructions"] = VectorInstructions();
  document["repetitions"] = options.measure.repetitions;
  document["results"] = rows;
  CUSPAN_RETURN_IF_ERROR(WriteFile(options.json_path, document.dump(2) + '\n'));
  return all_measured;
}

}  // namespace
}  // namespace cuspan::bench::soft

int main(int argc, char** argv) {
  cuspan::bench::soft::Options options;
  options.measure.threads = std::max(std::thread::hardware_concurrency(), 1u);
  CLI::App app("Times the software GPU against plain C++ on the same cores.", "cuspan bench soft");
  app.add_option("--threads", options.measure.threads,
                 "threads of each side (default: number of cores)")
      ->type_name("N")
      ->check(cuspan::bench::Between(1, 1024));
  app.add_option("--repetitions", options.measure.repetitions,
                 "repetitions of each measurement (default: 5)")
      ->type_name("N")
      ->check(cuspan::bench::Between(1, 1000));
  app.add_option("--rows", options.measure.keys,
                 "rows: KEY,… or the part of keys before a - (default: all)")
      ->type_name("KEY,…")
      ->delimiter(',');
  cuspan::bench::AddResultsOption(app, "--json", options.json_path);
  app.add_flag("--list", options.list, "list the keys of the rows");
  if (const std::optional<int> status = cuspan::bench::Parse(app, argc, argv)) return *status;
  const cuspan::Result<bool> measured =
      cuspan::bench::soft::Run(options, cuspan::bench::OriginOf("soft", argc, argv));
  if (!measured.ok()) return cuspan::bench::ExitStatusOf(measured.status());
  return *measured ? 0 : 1;
}

// cuspan bench share: runs sharing a GPU, compared with one alone, and with the driver's own
// sharing between processes.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "bench/common/command.h"
#include "bench/common/origin.h"
#include "bench/share/scenarios.h"
#include "common/format.h"

namespace cuspan::bench::share {
namespace {

Status Run(const Options& options, const Origin& origin) {
  CUSPAN_RETURN_IF_ERROR(MakeFiles({options.csv_path, options.json_path}));
  CUSPAN_ASSIGN_OR_RETURN(const std::vector<Row> rows, Measure(options));
  std::string table = Format("{:<11} {:<13} {:<36} {:<20} {:>11} {:>9}\n", "scenario",
                             "arrangement", "program", "figure", "value", "to alone");
  std::string csv = CsvHead(origin) + "scenario,arrangement,program,figure,value,ratio_alone\n";
  nlohmann::json results = nlohmann::json::array();
  for (const Row& row : rows) {
    const std::string ratio = row.ratio ? Format("{:.3f}", *row.ratio) : "";
    table += Format("{:<11} {:<13} {:<36} {:<20} {:>11.2f} {:>9}\n", row.scenario, row.arrangement,
                    row.program, row.figure, row.value, ratio);
    csv += Format("{},\"{}\",\"{}\",\"{}\",{:.3f},{}\n", row.scenario, row.arrangement, row.program,
                  row.figure, row.value, ratio);
    nlohmann::json result = {{"scenario", row.scenario}, {"arrangement", row.arrangement},
                             {"program", row.program},   {"figure", row.figure},
                             {"value", row.value},       {"ratio_alone", nullptr}};
    if (row.ratio) result["ratio_alone"] = *row.ratio;
    results.push_back(std::move(result));
  }
  std::fputs(table.c_str(), stdout);
  CUSPAN_RETURN_IF_ERROR(WriteFile(options.csv_path, csv));
  nlohmann::ordered_json document = JsonHead(origin);
  document["results"] = results;
  return WriteFile(options.json_path, document.dump(2) + '\n');
}

}  // namespace
}  // namespace cuspan::bench::share

int main(int argc, char** argv) {
  cuspan::bench::share::Options options;
  options.scenarios = cuspan::bench::share::ScenarioNames();
  CLI::App app(
      "Measures runs sharing a GPU: latency at high priority, throughput time-sliced and in pairs, "
      "quotas, the cost of --share for a run alone, the time of a scheduling decision, runs with "
      "more memory than the GPU, the remains of killed runs, and the time of a change of runs in "
      "the middle of a kernel.",
      "cuspan bench share");
  cuspan::bench::AddDeviceOption(app, options.device);
  app.add_option("--scenario", options.scenarios,
                 "latency, throughput, pairs, matrix, fair, cost, decision, swap, faults, change "
                 "(default: all)")
      ->type_name("NAME,…")
      ->delimiter(',')
      ->check(cuspan::bench::OneOf(options.scenarios));
  app.add_option("--seconds", options.seconds, "seconds of each measurement (default: 5)")
      ->type_name("SECONDS")
      ->check(cuspan::bench::Between(1.0, 600.0));
  app.add_option("--bursts", options.bursts, "bursts of the latency scenario (default: 100)")
      ->type_name("N")
      ->check(cuspan::bench::Between(2, 100000));
  app.add_option("--kills", options.kills, "kills in the faults scenario (default: 200)")
      ->type_name("N")
      ->check(cuspan::bench::Between(1, 100000));
  cuspan::bench::AddResultsOption(app, "--csv", options.csv_path);
  cuspan::bench::AddResultsOption(app, "--json", options.json_path);
  if (const std::optional<int> status = cuspan::bench::Parse(app, argc, argv)) return *status;
  return cuspan::bench::ExitStatusOf(
      cuspan::bench::share::Run(options, cuspan::bench::OriginOf("share", argc, argv)));
}

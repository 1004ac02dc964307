// cuspan bench bandwidth: bandwidth of copies through cuspan, on one node and over agents. Compares
// with raw MPI and UCX between the same hosts, and with the same program on a GPU of this machine
// if there is one.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <optional>

#include "bench/bandwidth/report.h"
#include "bench/bandwidth/sweep.h"
#include "bench/common/command.h"
#include "bench/common/origin.h"

namespace cuspan::bench::bandwidth {
namespace {

struct Files {
  std::string csv;
  std::string json;
};

// Selected measurements.
struct Parts {
  bool copies = true;
  bool legs = false;
  bool footprints = false;
};

Status Run(const SweepOptions& options, const Parts& parts, const Files& files, Origin origin) {
  CUSPAN_RETURN_IF_ERROR(MakeFiles({files.csv, files.json}));
  CUSPAN_ASSIGN_OR_RETURN(const SweepResult result, parts.copies ? Sweep(options) : SweepResult());
  if (parts.copies) std::fputs(Table(result).c_str(), stdout);
  origin.rounds = options.rounds;
  origin.device = options.device;
  // The choice of "auto" is known for this machine only.
  if (parts.copies && options.device == "auto" && options.hosts == "localhost")
    origin.device = result.local ? "cuda" : "soft";
  CUSPAN_ASSIGN_OR_RETURN(const std::vector<LegsRow> legs,
                          parts.legs ? MeasureLegs(options) : std::vector<LegsRow>());
  if (parts.legs) std::fputs(LegsTable(legs).c_str(), stdout);
  CUSPAN_ASSIGN_OR_RETURN(const std::vector<Footprint> footprints,
                          parts.footprints ? MeasureFootprints(options) : std::vector<Footprint>());
  if (parts.footprints) std::fputs(FootprintTable(footprints).c_str(), stdout);
  CUSPAN_RETURN_IF_ERROR(WriteFile(files.csv, Csv(origin, result)));
  return WriteFile(files.json, Json(origin, result, legs, footprints));
}

constexpr std::uint64_t kK = 1024;
constexpr std::uint64_t kM = 1024 * 1024;

}  // namespace
}  // namespace cuspan::bench::bandwidth

int main(int argc, char** argv) {
  using cuspan::bench::bandwidth::kK;
  using cuspan::bench::bandwidth::kM;
  cuspan::bench::bandwidth::SweepOptions options;
  cuspan::bench::bandwidth::Files files;
  bool full = false;
  std::string pipeline = "on";
  std::vector<std::uint64_t> transfers;
  std::vector<std::uint64_t> buffers;
  CLI::App app("Measures copies: locally if there is a GPU, on one node, and over agents.",
               "cuspan bench bandwidth");
  const CLI::Validator size = CLI::AsSizeValue(false).description("");
  bool quick = false;
  app.add_flag("--quick", quick, "few sizes, within two minutes (the default)");
  app.add_flag("--full", full, "transfers of 4K … 1G, staging buffers of 64K … 8M")
      ->excludes("--quick");
  cuspan::bench::AddDeviceOption(app, options.device);
  app.add_option("--hosts", options.hosts, "hosts of the GPUs, for the path over agents")
      ->type_name("HOSTS");
  cuspan::bench::AddRelaysOption(app, options.relays);
  cuspan::bench::AddTransportOption(app, options.transport);
  app.add_option("--placements", options.placements, "same-node, agents (default: both)")
      ->type_name("NAME,…")
      ->delimiter(',')
      ->check(cuspan::bench::OneOf({"same-node", "agents"}));
  app.add_option("--directions", options.directions,
                 "to-device, from-device, both, device-to-device (default: the first three)")
      ->type_name("NAME,…")
      ->delimiter(',')
      ->check(cuspan::bench::OneOf({"to-device", "from-device", "both", "device-to-device"}));
  app.add_option("--memory", options.memories, "pinned, pageable (default: both)")
      ->type_name("NAME,…")
      ->delimiter(',')
      ->check(cuspan::bench::OneOf({"pinned", "pageable"}));
  app.add_option("--transfers", transfers, "sizes of copies: 4K,64M, …")
      ->type_name("SIZE,…")
      ->delimiter(',')
      ->transform(size);
  app.add_option("--buffers", buffers, "sizes of staging buffers: 256K,1M, …")
      ->type_name("SIZE,…")
      ->delimiter(',')
      ->transform(size);
  app.add_option("--count", options.buffer_count,
                 "staging buffers each way (default: 16; with three lanes or more 8 for each lane)")
      ->type_name("N")
      ->check(cuspan::bench::Between(2, 64));
  app.add_option("--sends", options.sends,
                 "staging buffers in flight between agents, for each lane (default: 8; with three "
                 "lanes or more 4)")
      ->type_name("N")
      ->check(cuspan::bench::Between(1, 64));
  app.add_option("--lanes", options.lanes,
                 "lanes of a node for bulk data between agents: 1,2,4, … (default: 1); raw MPI and "
                 "UCX use the same number of ranks")
      ->type_name("N,…")
      ->delimiter(',')
      ->check(cuspan::bench::Between(1, 16));
  app.add_option("--proxies", options.proxies,
                 "devices copying at the same time: 1,2, … (default: 1)")
      ->type_name("N,…")
      ->delimiter(',')
      ->check(cuspan::bench::Between(1, 64));
  app.add_option("--pipeline", pipeline,
                 "on; off: one chunk at a time, one leg after the other; or both")
      ->type_name("on|off|both")
      ->check(cuspan::bench::OneOf({"on", "off", "both"}));
  std::vector<std::string> measured = {"copies"};
  app.add_option(
         "--measure", measured,
         "copies; legs: each leg of the largest copy alone, compared with the bound of a pipeline; "
         "or memory: memory of proxies and agents, on this host (default: copies)")
      ->type_name("NAME,…")
      ->delimiter(',')
      ->check(cuspan::bench::OneOf({"copies", "legs", "memory"}));
  app.add_option("--rounds", options.rounds,
                 "rounds of all measurements, one after the other (default: 3)")
      ->type_name("N")
      ->check(cuspan::bench::Between(1, 1000));
  app.add_option("--seconds", options.seconds,
                 "seconds of one measurement of a round (default: 0.5)")
      ->type_name("SECONDS")
      ->check(cuspan::bench::Between(0.001, 1000.0));
  cuspan::bench::AddResultsOption(app, "--csv", files.csv);
  cuspan::bench::AddResultsOption(app, "--json", files.json);
  app.footer("cuspan bench plot draws the files of --csv and --json.");
  if (const std::optional<int> status = cuspan::bench::Parse(app, argc, argv)) return *status;
  if (transfers.empty()) {
    if (full)
      for (std::uint64_t bytes = 4 * kK; bytes <= 1024 * kM; bytes *= 4) transfers.push_back(bytes);
    else
      transfers = {4 * kK, 64 * kK, kM, 16 * kM, 64 * kM};
  }
  if (buffers.empty()) {
    if (full)
      for (std::uint64_t bytes = 64 * kK; bytes <= 8 * kM; bytes *= 2) buffers.push_back(bytes);
    else
      buffers = {256 * kK, kM, 4 * kM};
  }
  options.transfers = std::move(transfers);
  options.buffers = std::move(buffers);
  options.buffer_count_chosen = app.count("--count") != 0;
  options.sends_chosen = app.count("--sends") != 0;
  if (pipeline == "both") options.pipelined = {true, false};
  if (pipeline == "off") options.pipelined = {false};
  const auto wants = [&measured](const char* part) {
    return std::find(measured.begin(), measured.end(), part) != measured.end();
  };
  const cuspan::bench::bandwidth::Parts parts{wants("copies"), wants("legs"), wants("memory")};
  return cuspan::bench::ExitStatusOf(cuspan::bench::bandwidth::Run(
      options, parts, files, cuspan::bench::OriginOf("bandwidth", argc, argv)));
}

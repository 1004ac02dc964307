// cuspan bench calls: cost of CUDA calls through cuspan. Compares with the same program on a GPU of
// this machine if there is one, and with raw MPI.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <utility>

#include "bench/common/child.h"
#include "bench/common/command.h"
#include "bench/common/median.h"
#include "bench/common/origin.h"
#include "bench/common/raw_link.h"
#include "common/format.h"
#include "common/log.h"
#include "launcher/run/plan.h"

namespace cuspan::bench::calls {
namespace {

struct Options {
  std::string device = "auto";
  std::string hosts = "localhost,localhost";
  std::vector<RelayKind> relays;
  int rounds = 200;
  std::vector<std::string> threads;  // "T" or "TxD": T threads on D devices.
  std::string face = "runtime";
  std::string json_path;
};

struct Measured {
  double issue = 0;
  double round_trip = 0;
  double per_second = 0;
};

// Results of one run of the program, by call, threads and devices.
struct Key {
  std::string call;
  int threads = 1;
  int devices = 1;
  auto operator<=>(const Key&) const = default;
};
using Measurements = std::map<Key, Measured>;

struct Placement {
  std::string name;                // Field of the results.
  std::string relay;               // Field of the results.
  std::vector<std::string> words;  // Command before the program.

  std::string Title() const { return relay.empty() ? name : Format("{}, {}", name, relay); }
};

Status Read(const std::string& text, Measurements& measurements, std::vector<Key>& order) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    Key key;
    Measured measured;
    if (!(words >> key.call >> key.threads >> key.devices >> measured.issue >>
          measured.round_trip >> measured.per_second))
      return Status::Internal("the measuring program printed '{}'", line);
    if (measurements.emplace(key, measured).second) order.push_back(key);
  }
  return Status::Ok();
}

// Whole runs, of a program without a GPU and of one with a single kernel.
Status MeasureStart(const std::vector<std::string>& before, const std::string& folder, bool quiet,
                    Measurements& measurements, std::vector<Key>& order) {
  constexpr int kRuns = 5;
  const std::pair<const char*, std::vector<std::string>> programs[] = {
      {"run_true", {"true"}},
      {"run_first_kernel", {folder + "/bench-calls-program", "--first-kernel", "1"}}};
  for (const auto& [name, program] : programs) {
    std::vector<std::string> words = before;
    words.insert(words.end(), program.begin(), program.end());
    std::vector<double> times;
    for (int i = 0; i < kRuns; ++i) {
      const auto start = std::chrono::steady_clock::now();
      CUSPAN_RETURN_IF_ERROR(Capture(words, quiet).status());
      times.push_back(
          std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
              .count());
    }
    const Key key{name};
    measurements[key].round_trip = Median(std::move(times));
    order.push_back(key);
  }
  return Status::Ok();
}

// Runs all measurements of one placement, with programs in `folder`.
Result<Measurements> Measure(const std::vector<std::string>& before, const std::string& folder,
                             const Options& options, std::vector<Key>& order, bool quiet) {
  Measurements measurements;
  const bool driver = options.face == "driver";
  const auto capture = [&](const char* program, const std::vector<std::string>& more) {
    std::vector<std::string> words = before;
    words.push_back(folder + program);
    words.insert(words.end(), more.begin(), more.end());
    return Capture(words, quiet);
  };
  const auto run = [&](std::vector<std::string> more) -> Status {
    more.insert(more.begin(), {"--rounds", std::to_string(options.rounds)});
    CUSPAN_ASSIGN_OR_RETURN(
        const std::string text,
        capture(driver ? "/bench-calls-driver-program" : "/bench-calls-program", more));
    return Read(text, measurements, order);
  };
  CUSPAN_RETURN_IF_ERROR(run({}));
  if (driver) {
    // The first run transfers the device code to the node, and the node caches it.
    CUSPAN_RETURN_IF_ERROR(capture("/bench-calls-image-program", {}).status());
    CUSPAN_ASSIGN_OR_RETURN(const std::string text, capture("/bench-calls-image-program", {}));
    CUSPAN_RETURN_IF_ERROR(Read(text, measurements, order));
  }
  if (!driver) CUSPAN_RETURN_IF_ERROR(MeasureStart(before, folder, quiet, measurements, order));
  for (const std::string& entry : options.threads) {
    const std::size_t cross = entry.find('x');
    const std::string devices = cross == std::string::npos ? "1" : entry.substr(cross + 1);
    CUSPAN_RETURN_IF_ERROR(run({"--threads", entry.substr(0, cross), "--devices", devices}));
  }
  return measurements;
}

// Prefix of lines about idle processes of the run instead of calls.
constexpr std::string_view kIdling = "idle:";
bool IsIdling(const Key& key) { return key.call.starts_with(kIdling); }

std::optional<double> OneWay(const std::string& folder, RelayKind kind) {
  const Result<std::vector<double>> one_way =
      RunRaw(folder, kind, std::string(kThisHost), 1, {"ping", "64"});
  if (one_way.ok()) return one_way->front();
  LogWarn("raw {} cannot be measured here: {}", RawName(kind), one_way.status().message());
  return std::nullopt;
}

std::string Number(const std::optional<double>& value) {
  if (!value || *value == 0) return "";
  return Format("{:.{}f}", *value, *value < 10 ? 3 : *value < 1000 ? 1 : 0);
}

Status Run(const Options& options, const Origin& origin) {
  CUSPAN_ASSIGN_OR_RETURN(const std::string folder, OwnFolder());
  CUSPAN_RETURN_IF_ERROR(MakeFiles({options.json_path}));
  const std::string cuspan = folder + "/../../bin/cuspan";
  std::vector<Placement> placements = {
      {"same-node", "", {cuspan, "run", "--device", options.device, "--"}}};
  std::map<RelayKind, std::optional<double>> one_way;
  for (const RelayKind relay : options.relays) {
    const std::string name(NameOf(relay));
    placements.push_back({"agents",
                          name,
                          {cuspan, "run", "--device", options.device, "--hosts", options.hosts,
                           "--same-node", "never", "--relay", name, "--"}});
    one_way[relay] = OneWay(folder, relay);
  }
  std::vector<Key> order;
  // Same program without cuspan: fails if there is no GPU.
  std::optional<Measurements> local;
  if (options.device != "soft") {
    Result<Measurements> measured = Measure({}, folder, options, order, true);
    if (measured.ok()) local = std::move(*measured);
  }
  std::vector<Measurements> results;
  for (const Placement& placement : placements) {
    Result<Measurements> measured = Measure(placement.words, folder, options, order, false);
    if (!measured.ok())
      return Status::Internal("{}: {}", placement.name, measured.status().message());
    results.push_back(std::move(*measured));
  }
  std::vector<Key> keys;
  for (const Key& key : order)
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);

  std::string text = Format("microseconds, medians; {}; 64 bytes, one way:",
                            local ? "local: this machine's GPU" : "no local GPU");
  for (const auto& [relay, time] : one_way)
    text += Format(" raw {} {}", RawName(relay), time ? Number(time) : "unknown");
  text += Format("\n{:<30} {:>20}", "", "local");
  for (const Placement& placement : placements) text += Format(" {:>20}", placement.Title());
  text += Format("\n{:<30} {:>9} {:>10}", "call", "issue", "round trip");
  for (std::size_t i = 0; i < placements.size(); ++i)
    text += Format(" {:>9} {:>10}", "issue", "round trip");
  text += '\n';
  nlohmann::json rows = nlohmann::json::array();
  for (const Key& key : keys) {
    if (IsIdling(key)) continue;
    const auto find = [&](const Measurements& from) -> std::optional<Measured> {
      const auto found = from.find(key);
      return found == from.end() ? std::nullopt : std::optional<Measured>(found->second);
    };
    const std::optional<Measured> there = local ? find(*local) : std::nullopt;
    std::string name = key.call;
    if (key.call.ends_with("_threads")) name += Format(" {} on {}", key.threads, key.devices);
    text += Format("{:<30} {:>9} {:>10}", name, there ? Number(there->issue) : "",
                   there ? Number(there->round_trip) : "");
    for (std::size_t i = 0; i < placements.size(); ++i) {
      const std::optional<Measured> measured = find(results[i]);
      text += Format(" {:>9} {:>10}", measured ? Number(measured->issue) : "",
                     measured ? Number(measured->round_trip) : "");
      if (!measured) continue;
      nlohmann::json row = {{"call", key.call},
                            {"placement", placements[i].name},
                            {"relay", placements[i].relay},
                            {"threads", key.threads},
                            {"devices", key.devices},
                            {"issue_us", measured->issue},
                            {"round_trip_us", measured->round_trip},
                            {"per_second", measured->per_second},
                            {"local_issue_us", nullptr},
                            {"local_round_trip_us", nullptr},
                            {"local_per_second", nullptr},
                            {"mpi_one_way_us", nullptr},
                            {"ucx_one_way_us", nullptr}};
      if (there) {
        row["local_issue_us"] = there->issue;
        row["local_round_trip_us"] = there->round_trip;
        row["local_per_second"] = there->per_second;
      }
      for (const auto& [relay, time] : one_way)
        if (time) row[Format("{}_one_way_us", NameOf(relay))] = *time;
      rows.push_back(std::move(row));
    }
    text += '\n';
  }
  text += "calls per second:\n";
  for (const Key& key : keys) {
    const auto first = results.front().find(key);
    if (!key.call.starts_with("launch") || first == results.front().end() ||
        first->second.per_second == 0)
      continue;
    text += Format("{:<20} {:>2} threads, {} devices", key.call, key.threads, key.devices);
    const auto rate = [&](const Measurements& from, const std::string& name) {
      const auto found = from.find(key);
      if (found != from.end()) text += Format("  {} {:.0f}", name, found->second.per_second);
    };
    if (local) rate(*local, "local");
    for (std::size_t i = 0; i < placements.size(); ++i) rate(results[i], placements[i].Title());
    text += '\n';
  }
  nlohmann::json idle = nlohmann::json::array();
  text += "processor time of an idle run, percent of a core:\n";
  for (std::size_t i = 0; i < placements.size(); ++i) {
    text += Format("{:<20}", placements[i].Title());
    for (const auto& [key, measured] : results[i]) {
      if (!IsIdling(key)) continue;
      const std::string process = key.call.substr(kIdling.size());
      text += Format("  {} {:.2f}", process, measured.issue);
      idle.push_back({{"placement", placements[i].name},
                      {"relay", placements[i].relay},
                      {"process", process},
                      {"percent", measured.issue}});
    }
    text += '\n';
  }
  std::fputs(text.c_str(), stdout);
  nlohmann::ordered_json document = JsonHead(origin);
  document["results"] = rows;
  document["idle"] = idle;
  return WriteFile(options.json_path, document.dump(2) + '\n');
}

}  // namespace
}  // namespace cuspan::bench::calls

int main(int argc, char** argv) {
  cuspan::bench::calls::Options options;
  CLI::App app("Measures CUDA calls: locally if there is a GPU, on one node, and over agents.",
               "cuspan bench calls");
  cuspan::bench::AddDeviceOption(app, options.device);
  cuspan::bench::AddRelaysOption(app, options.relays);
  app.add_option("--hosts", options.hosts,
                 "hosts of the runs over agents (default: localhost twice)")
      ->type_name("HOSTS");
  app.add_option("--rounds", options.rounds, "rounds of 100 calls each (default: 200)")
      ->type_name("N")
      ->check(cuspan::bench::Between(1, 100000));
  CLI::Option* const threads =
      app.add_option(
             "--threads", options.threads,
             "also measure launches from several threads: T or TxD, T threads on D devices, …")
          ->type_name("T[xD],…")
          ->delimiter(',');
  app.add_option("--face", options.face, "API of the calls: runtime (the default) or driver")
      ->type_name("runtime|driver")
      ->check(cuspan::bench::OneOf({"runtime", "driver"}))
      ->excludes(threads);
  cuspan::bench::AddResultsOption(app, "--json", options.json_path);
  if (const std::optional<int> status = cuspan::bench::Parse(app, argc, argv)) return *status;
  return cuspan::bench::ExitStatusOf(
      cuspan::bench::calls::Run(options, cuspan::bench::OriginOf("calls", argc, argv)));
}

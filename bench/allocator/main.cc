// cuspan bench allocator: results of each policy on a large simulated cluster, or gains of sharing
// GPUs, and times of decisions.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "bench/allocator/sharing.h"
#include "bench/allocator/simulation.h"
#include "bench/common/command.h"
#include "bench/common/origin.h"
#include "common/format.h"

namespace cuspan::bench::allocator {
namespace {

struct Options {
  bool sharing = false;
  SimulationOptions simulation;
  std::optional<std::uint32_t> requests;
  std::vector<double> loads;  // Empty: LoadsOf.
  std::vector<std::string> policies = {"first-fit", "local-first", "pack", "spread", "fastest"};
  std::string csv_path;
  std::string json_path;
};

std::vector<double> LoadsOf(const Options& options) {
  if (!options.loads.empty()) return options.loads;
  return options.sharing ? std::vector<double>{2} : std::vector<double>{0.9, 0.97, 1};
}

void Print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

std::string Row(const Outcome& outcome) {
  return Format(
      "{:>4.2f}  {:<11}  {:>6.1f} {:>6.1f} {:>6.1f}  {:>10.1f} %  {:>7.2f} {:>7.1f}  {:>5.2f}  "
      "{:>5.1f} %  {:>5.2f}  {:>5.2f}\n",
      outcome.load, NameOf(outcome.policy), outcome.decisions.mean * 1e6,
      outcome.decisions.p99 * 1e6, outcome.decisions.max * 1e6, outcome.utilisation * 100,
      outcome.wait_mean / 60, outcome.wait_p95 / 60, outcome.hosts, outcome.own * 100,
      outcome.link_share, outcome.speed);
}

constexpr const char* kHeader =
    "load  policy         decision, µs           utilisation    wait, min        hosts  own      "
    "link   speed\n"
    "                     mean    p99    max                    mean     p95           node     "
    "share\n";

// Units as in the table. The CSV has its columns in this order.
nlohmann::ordered_json Json(const Outcome& outcome) {
  return {{"load", outcome.load},
          {"policy", NameOf(outcome.policy)},
          {"decisions", outcome.decisions.count},
          {"decision_mean_us", outcome.decisions.mean * 1e6},
          {"decision_p99_us", outcome.decisions.p99 * 1e6},
          {"decision_max_us", outcome.decisions.max * 1e6},
          {"utilisation_percent", outcome.utilisation * 100},
          {"wait_mean_min", outcome.wait_mean / 60},
          {"wait_p95_min", outcome.wait_p95 / 60},
          {"hosts", outcome.hosts},
          {"own_node_percent", outcome.own * 100},
          {"link_share", outcome.link_share},
          {"speed", outcome.speed}};
}

std::string Row(const SharingOutcome& outcome) {
  const Leasing& leasing = *outcome.leasing;
  return Format(
      "{:>4.2f}  {:<9}  {:>5}  {:<11}  {:>6.1f} {:>6.1f} {:>6.1f}  {:>10.1f} %  {:>5.1f} %  "
      "{:>7.2f} {:>7.1f}  {:>9.0f}  {:>8.2f}\n",
      outcome.load, leasing.name, leasing.most_runs, PolicyName(leasing.policy),
      outcome.decisions.mean * 1e6, outcome.decisions.p99 * 1e6, outcome.decisions.max * 1e6,
      outcome.utilisation * 100, outcome.work * 100, outcome.wait_mean / 60, outcome.wait_p95 / 60,
      outcome.completed_per_hour, outcome.batch_slowdown);
}

constexpr const char* kSharingHeader =
    "load  leases     runs   policy         decision, µs           utilisation    work      "
    "wait, min    runs done  slowdown\n"
    "                 a GPU                 mean    p99    max                           mean     "
    "p95   an hour  of batch\n";

nlohmann::ordered_json Json(const SharingOutcome& outcome) {
  return {{"load", outcome.load},
          {"leases", outcome.leasing->name},
          {"share_limit", outcome.leasing->most_runs},
          {"policy", PolicyName(outcome.leasing->policy)},
          {"decisions", outcome.decisions.count},
          {"decision_mean_us", outcome.decisions.mean * 1e6},
          {"decision_p99_us", outcome.decisions.p99 * 1e6},
          {"decision_max_us", outcome.decisions.max * 1e6},
          {"utilisation_percent", outcome.utilisation * 100},
          {"work_percent", outcome.work * 100},
          {"wait_mean_min", outcome.wait_mean / 60},
          {"wait_p95_min", outcome.wait_p95 / 60},
          {"completed_per_hour", outcome.completed_per_hour},
          {"batch_slowdown", outcome.batch_slowdown}};
}

std::string Csv(const Origin& origin, const nlohmann::ordered_json& rows) {
  std::string columns, lines;
  for (const nlohmann::ordered_json& row : rows) {
    std::string names, values;
    for (const auto& [name, value] : row.items()) {
      names += (names.empty() ? "" : ",") + name;
      values += (values.empty() ? "" : ",") +
                (value.is_string() ? value.get<std::string>() : value.dump());
    }
    columns = names + "\n";
    lines += values + "\n";
  }
  return CsvHead(origin) + columns + lines;
}

// `document`: fields common to all rows.
Status Write(const Options& options, const Origin& origin, nlohmann::ordered_json document,
             nlohmann::ordered_json rows) {
  CUSPAN_RETURN_IF_ERROR(WriteFile(options.csv_path, Csv(origin, rows)));
  nlohmann::ordered_json written = JsonHead(origin);
  written.update(document);
  written["results"] = std::move(rows);
  return WriteFile(options.json_path, written.dump(2) + '\n');
}

Status RunSharing(const Options& options, Origin origin) {
  // The rows have different columns.
  origin.benchmark = "allocator-sharing";
  CUSPAN_RETURN_IF_ERROR(MakeFiles({options.csv_path, options.json_path}));
  SharingOptions made;
  made.nodes = options.simulation.nodes;
  made.gpus_per_node = options.simulation.gpus_per_node;
  made.seed = options.simulation.seed;
  made.runs = options.requests.value_or(made.runs);
  Print(Format(
      "{} nodes with {} GPUs, {} runs of one GPU, taking {:g} min alone on average, seed {}\n{}",
      made.nodes, made.gpus_per_node, made.runs, made.mean_seconds / 60, made.seed,
      kSharingHeader));
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const double load : LoadsOf(options)) {
    made.load = load;
    const SharedWorkload workload = MakeSharedWorkload(made);
    for (const Leasing& leasing : Leasings()) {
      SharingOutcome outcome = SimulateSharing(workload, leasing);
      outcome.load = load;
      Print(Row(outcome));
      rows.push_back(Json(outcome));
    }
  }
  return Write(options, origin,
               {{"nodes", made.nodes},
                {"gpus_per_node", made.gpus_per_node},
                {"runs", made.runs},
                {"seed", made.seed}},
               std::move(rows));
}

Status RunPolicies(const Options& options, const Origin& origin) {
  std::vector<TestedPolicy> policies;
  for (const std::string& name : options.policies) {
    const Result<TestedPolicy> policy = ParseTestedPolicy(name);
    if (!policy.ok()) return Status::Invalid("--policies: {}", policy.status().message());
    policies.push_back(*policy);
  }
  CUSPAN_RETURN_IF_ERROR(MakeFiles({options.csv_path, options.json_path}));
  SimulationOptions made = options.simulation;
  made.requests = options.requests.value_or(made.requests);
  Print(Format(
      "{} nodes with {} GPUs, {} requests, keeping their GPUs for {:g} min on average, seed {}\n{}",
      made.nodes, made.gpus_per_node, made.requests, made.mean_seconds / 60, made.seed, kHeader));
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const double load : LoadsOf(options)) {
    made.load = load;
    const Workload workload = MakeWorkload(made);
    for (const TestedPolicy policy : policies) {
      Outcome outcome = Simulate(workload, policy);
      outcome.load = load;
      Print(Row(outcome));
      rows.push_back(Json(outcome));
    }
  }
  return Write(options, origin,
               {{"nodes", made.nodes},
                {"gpus_per_node", made.gpus_per_node},
                {"requests", made.requests},
                {"seed", made.seed}},
               std::move(rows));
}

Status Run(const Options& options, const Origin& origin) {
  return options.sharing ? RunSharing(options, origin) : RunPolicies(options, origin);
}

}  // namespace
}  // namespace cuspan::bench::allocator

int main(int argc, char** argv) {
  cuspan::bench::allocator::Options options;
  cuspan::bench::allocator::SimulationOptions& simulation = options.simulation;
  CLI::App app(
      "Simulates a cluster with requests for GPUs arriving, waiting and ending, under each policy. "
      "With --sharing, simulates runs with a GPU of their own, and runs sharing one.",
      "cuspan bench allocator");
  CLI::Option* sharing = app.add_flag(
      "--sharing", options.sharing,
      "runs of one GPU: exclusive leases against 2 and 4 runs on a GPU, time-sliced and in pairs");
  app.add_option("--nodes", simulation.nodes, "number of nodes (default: 1000)")
      ->type_name("N")
      ->check(cuspan::bench::Between(16, 100'000));
  app.add_option("--gpus", simulation.gpus_per_node, "GPUs of each node (default: 8)")
      ->type_name("N")
      ->check(cuspan::bench::Between(8, 64));
  app.add_option("--requests", options.requests,
                 "number of requests (default: 100000; with --sharing: 40000)")
      ->type_name("N")
      ->check(cuspan::bench::Between(2, 10'000'000));
  app.add_option("--loads", options.loads,
                 "mean number of GPUs in demand without sharing, as a part of all GPUs: L,… "
                 "(default: 0.9,0.97,1; with --sharing: 2)")
      ->type_name("L,…")
      ->delimiter(',')
      ->check(cuspan::bench::Between(0.01, 4.0));
  app.add_option("--policies", options.policies, "policies: NAME,… (default: all but pair)")
      ->type_name("NAME,…")
      ->delimiter(',')
      ->excludes(sharing);
  app.add_option("--seed", simulation.seed, "seed of the random numbers (default: 1)")
      ->type_name("N");
  cuspan::bench::AddResultsOption(app, "--csv", options.csv_path);
  cuspan::bench::AddResultsOption(app, "--json", options.json_path);
  app.footer("cuspan bench plot draws the files of --csv and --json, except those of --sharing.");
  if (const std::optional<int> status = cuspan::bench::Parse(app, argc, argv)) return *status;
  return cuspan::bench::ExitStatusOf(
      cuspan::bench::allocator::Run(options, cuspan::bench::OriginOf("allocator", argc, argv)));
}

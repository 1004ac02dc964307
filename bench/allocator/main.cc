// cuspan bench allocator: what each policy makes of a large simulated cluster, and how long its
// decisions take.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "bench/allocator/simulation.h"
#include "bench/common/command.h"
#include "bench/common/origin.h"
#include "common/format.h"

namespace cuspan::bench::allocator {
namespace {

struct Options {
  SimulationOptions simulation;
  std::vector<double> loads = {0.9, 0.97, 1.0};
  std::vector<std::string> policies = {"first-fit", "local-first", "pack", "spread", "fastest"};
  std::string csv_path;
  std::string json_path;
};

void Print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

std::string Row(const Outcome& outcome) {
  return Format(
      "{:>4.2f}  {:<11}  {:>6.1f} {:>6.1f} {:>6.1f}  {:>10.1f} %  {:>7.2f} {:>7.1f}  {:>5.2f}  "
      "{:>5.1f} %  {:>5.2f}  {:>5.2f}\n",
      outcome.load, PolicyName(outcome.policy), outcome.decision_mean * 1e6,
      outcome.decision_p99 * 1e6, outcome.decision_max * 1e6, outcome.utilisation * 100,
      outcome.wait_mean / 60, outcome.wait_p95 / 60, outcome.hosts, outcome.own * 100,
      outcome.link_share, outcome.speed);
}

constexpr const char* kHeader =
    "load  policy         decision, µs           utilisation    wait, min        hosts  own      "
    "link   speed\n"
    "                     mean    p99    max                    mean     p95           node     "
    "share\n";

// In the units of the table; the CSV's columns in this order.
nlohmann::ordered_json Json(const Outcome& outcome) {
  return {{"load", outcome.load},
          {"policy", PolicyName(outcome.policy)},
          {"decisions", outcome.decisions},
          {"decision_mean_us", outcome.decision_mean * 1e6},
          {"decision_p99_us", outcome.decision_p99 * 1e6},
          {"decision_max_us", outcome.decision_max * 1e6},
          {"utilisation_percent", outcome.utilisation * 100},
          {"wait_mean_min", outcome.wait_mean / 60},
          {"wait_p95_min", outcome.wait_p95 / 60},
          {"hosts", outcome.hosts},
          {"own_node_percent", outcome.own * 100},
          {"link_share", outcome.link_share},
          {"speed", outcome.speed}};
}

std::string Csv(const Origin& origin, const std::vector<Outcome>& outcomes) {
  std::string columns, lines;
  for (const Outcome& outcome : outcomes) {
    const nlohmann::ordered_json row = Json(outcome);
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

Status Run(const Options& options, const Origin& origin) {
  std::vector<Policy> policies;
  for (const std::string& name : options.policies) {
    const Result<Policy> policy = ParsePolicy(name);
    if (!policy.ok()) return Status::Invalid("--policies: {}", policy.status().message());
    policies.push_back(*policy);
  }
  CUSPAN_RETURN_IF_ERROR(MakeFiles({options.csv_path, options.json_path}));
  const SimulationOptions& made = options.simulation;
  Print(Format(
      "{} nodes with {} GPUs, {} requests that keep theirs for {:g} min on average, seed {}\n{}",
      made.nodes, made.gpus_per_node, made.requests, made.mean_seconds / 60, made.seed, kHeader));
  std::vector<Outcome> outcomes;
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const double load : options.loads) {
    SimulationOptions simulation = options.simulation;
    simulation.load = load;
    const Workload workload = MakeWorkload(simulation);
    for (const Policy policy : policies) {
      Outcome outcome = Simulate(workload, policy);
      outcome.load = load;
      Print(Row(outcome));
      rows.push_back(Json(outcome));
      outcomes.push_back(outcome);
    }
  }
  CUSPAN_RETURN_IF_ERROR(WriteFile(options.csv_path, Csv(origin, outcomes)));
  nlohmann::ordered_json document = JsonHead(origin);
  document["nodes"] = made.nodes;
  document["gpus_per_node"] = made.gpus_per_node;
  document["requests"] = made.requests;
  document["seed"] = made.seed;
  document["results"] = std::move(rows);
  return WriteFile(options.json_path, document.dump(2) + '\n');
}

}  // namespace
}  // namespace cuspan::bench::allocator

int main(int argc, char** argv) {
  cuspan::bench::allocator::Options options;
  cuspan::bench::allocator::SimulationOptions& simulation = options.simulation;
  CLI::App app(
      "Simulates a cluster in which requests for GPUs arrive, wait and end, under each policy.",
      "cuspan bench allocator");
  app.add_option("--nodes", simulation.nodes, "nodes (default: 1000)")
      ->check(CLI::Range(16, 100'000));
  app.add_option("--gpus", simulation.gpus_per_node, "GPUs of each (default: 8)")
      ->check(CLI::Range(8, 64));
  app.add_option("--requests", simulation.requests, "how many arrive (default: 100000)")
      ->check(CLI::Range(2, 10'000'000));
  app.add_option("--loads", options.loads,
                 "GPUs wanted at a time, of those that there are: L,… (default: 0.9,0.97,1)")
      ->delimiter(',')
      ->check(CLI::Range(0.01, 1.5));
  app.add_option("--policies", options.policies, "which: NAME,… (default: all)")->delimiter(',');
  app.add_option("--seed", simulation.seed, "of all that is random (default: 1)");
  cuspan::bench::AddResultsOption(app, "--csv", options.csv_path);
  cuspan::bench::AddResultsOption(app, "--json", options.json_path);
  app.footer("bench/plot.py draws the files of --csv and --json.");
  CLI11_PARSE(app, argc, argv);
  return cuspan::bench::ExitStatusOf(
      cuspan::bench::allocator::Run(options, cuspan::bench::OriginOf("allocator", argc, argv)));
}

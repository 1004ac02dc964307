// cuspan bench allocator: what each policy makes of a large simulated cluster, and how long its
// decisions take.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bench/allocator/plot.h"
#include "bench/allocator/simulation.h"
#include "common/format.h"
#include "common/log.h"

namespace cuspan::bench {
namespace {

struct Options {
  SimulationOptions simulation;
  std::vector<double> loads = {0.9, 0.97, 1.0};
  std::vector<std::string> policies = {"first-fit", "local-first", "pack", "spread", "fastest"};
  std::string csv_path;
  std::string json_path;
  std::string svg_path;
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

nlohmann::json Json(const Outcome& outcome) {
  return {{"load", outcome.load},
          {"policy", PolicyName(outcome.policy)},
          {"decisions", outcome.decisions},
          {"decision_mean_seconds", outcome.decision_mean},
          {"decision_p99_seconds", outcome.decision_p99},
          {"decision_max_seconds", outcome.decision_max},
          {"utilisation", outcome.utilisation},
          {"wait_mean_seconds", outcome.wait_mean},
          {"wait_p95_seconds", outcome.wait_p95},
          {"hosts", outcome.hosts},
          {"own_node_share", outcome.own},
          {"link_share", outcome.link_share},
          {"speed", outcome.speed}};
}

std::string Csv(const std::vector<Outcome>& outcomes) {
  std::string text;
  for (const Outcome& outcome : outcomes) {
    const nlohmann::json row = Json(outcome);
    std::string names, values;
    for (const auto& [name, value] : row.items()) {
      names += (names.empty() ? "" : ",") + name;
      values += (values.empty() ? "" : ",") +
                (value.is_string() ? value.get<std::string>() : value.dump());
    }
    if (text.empty()) text = names + "\n";
    text += values + "\n";
  }
  return text;
}

// Opened before the long work, so that a mistake is told at once; nothing without a path.
Status Open(const char* option, const std::string& path, std::ofstream& file) {
  if (path.empty()) return Status::Ok();
  file.open(path, std::ios::trunc);
  return file ? Status::Ok() : Status::Invalid("{} {}: can not be written", option, path);
}

Status Write(const char* option, const std::string& path, std::ofstream& file,
             const std::string& text) {
  if (path.empty()) return Status::Ok();
  file << text;
  file.close();
  return file ? Status::Ok() : Status::Internal("{} {}: writing failed", option, path);
}

Status Run(const Options& options) {
  std::vector<Policy> policies;
  for (const std::string& name : options.policies) {
    const Result<Policy> policy = ParsePolicy(name);
    if (!policy.ok()) return Status::Invalid("--policies: {}", policy.status().message());
    policies.push_back(*policy);
  }
  std::ofstream csv, json, svg;
  CUSPAN_RETURN_IF_ERROR(Open("--csv", options.csv_path, csv));
  CUSPAN_RETURN_IF_ERROR(Open("--json", options.json_path, json));
  CUSPAN_RETURN_IF_ERROR(Open("--svg", options.svg_path, svg));
  const SimulationOptions& made = options.simulation;
  Print(Format(
      "{} nodes with {} GPUs, {} requests that keep theirs for {:g} min on average, seed {}\n{}",
      made.nodes, made.gpus_per_node, made.requests, made.mean_seconds / 60, made.seed, kHeader));
  std::vector<Outcome> outcomes;
  nlohmann::json rows = nlohmann::json::array();
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
  CUSPAN_RETURN_IF_ERROR(Write("--csv", options.csv_path, csv, Csv(outcomes)));
  const nlohmann::json document = {
      {"benchmark", "allocator"},  {"nodes", made.nodes}, {"gpus_per_node", made.gpus_per_node},
      {"requests", made.requests}, {"seed", made.seed},   {"rows", std::move(rows)}};
  CUSPAN_RETURN_IF_ERROR(Write("--json", options.json_path, json, document.dump(2) + "\n"));
  return Write("--svg", options.svg_path, svg, PlotOutcomes(outcomes));
}

}  // namespace
}  // namespace cuspan::bench

int main(int argc, char** argv) {
  cuspan::bench::Options options;
  cuspan::bench::SimulationOptions& simulation = options.simulation;
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
  app.add_option("--csv", options.csv_path, "writes the outcomes to this file, too");
  app.add_option("--json", options.json_path, "the same as JSON");
  app.add_option("--svg", options.svg_path, "the same as a plot: wait and utilisation by load");
  CLI11_PARSE(app, argc, argv);
  const cuspan::Status done = cuspan::bench::Run(options);
  if (done.ok()) return 0;
  cuspan::LogError("{}", done.message());
  return 125;
}

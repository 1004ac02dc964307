// cuspan bench agents: many agents on one machine, as if on separate hosts. Measures the duration
// of a run, and the use of each agent while idle. GPUs do not matter: all agents but one may serve
// none.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <thread>

#include "bench/agents/processes.h"
#include "bench/common/child.h"
#include "bench/common/command.h"
#include "bench/common/median.h"
#include "bench/common/origin.h"
#include "common/format.h"
#include "launcher/run/plan.h"

namespace cuspan::bench::agents {
namespace {

using Clock = std::chrono::steady_clock;

// After the start of a run, agents poll for a while before they sleep.
constexpr std::chrono::seconds kSettle{2};

struct Options {
  std::string device = "soft";
  std::vector<RelayKind> relays;
  std::vector<int> agents = {2, 8, 64};
  int rounds = 3;
  double seconds = 5;
  std::string json_path;
  bool look = false;  // Set in the program of a run.
};

// Results for the head agent ("home") and the worker agent with the highest value ("other").
struct Row {
  std::string relay;
  int agents = 0;
  double run_seconds = 0;
  double idle_percent = 0;  // Percent of a core, sum of all agents.
  double home_bytes = 0;
  double other_bytes = 0;
  double home_sockets = 0;
  double other_sockets = 0;
  std::optional<double> peer_bytes;  // Head agent's growth per agent since the previous row.
};

double Seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

// Runs as the program of a run. The agents are descendants of its parent, the launcher. Prints a
// line: IDLE_PERCENT HOME_BYTES OTHER_BYTES HOME_SOCKETS OTHER_SOCKETS
Status Look(double seconds) {
  std::this_thread::sleep_for(kSettle);
  CUSPAN_ASSIGN_OR_RETURN(const std::vector<Agent> before, FindAgents(::getppid()));
  const Clock::time_point start = Clock::now();
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  CUSPAN_ASSIGN_OR_RETURN(const std::vector<Agent> after, FindAgents(::getppid()));
  const double passed = Seconds(Clock::now() - start);
  std::uint64_t nanoseconds = 0;
  Agent most;
  for (std::size_t i = 0; i < after.size(); ++i) {
    if (after.size() != before.size() || after[i].pid != before[i].pid)
      return Status::Internal("agents started or exited during the measurement");
    nanoseconds += after[i].processor_nanoseconds - before[i].processor_nanoseconds;
    if (i == 0) continue;
    most.private_bytes = std::max(most.private_bytes, after[i].private_bytes);
    most.sockets = std::max(most.sockets, after[i].sockets);
  }
  std::fputs(
      Format("{} {} {} {} {}\n", 1e-7 * static_cast<double>(nanoseconds) / passed,
             after.front().private_bytes, most.private_bytes, after.front().sockets, most.sockets)
          .c_str(),
      stdout);
  return Status::Ok();
}

Result<Row> Measure(const Options& options, const std::string& folder, RelayKind relay,
                    int agents) {
  Row row;
  row.relay = NameOf(relay);
  row.agents = agents;
  std::string hosts;
  // One agent is the head agent, without a device.
  for (int i = 1; i < agents; ++i) hosts += Format("{}{}:1", i == 1 ? "" : ",", kThisHost);
  const std::vector<std::string> run = {folder + "/../../bin/cuspan",
                                        "run",
                                        "--device",
                                        options.device,
                                        "--hosts",
                                        hosts,
                                        "--same-node",
                                        "never",
                                        "--relay",
                                        row.relay,
                                        "--"};
  const auto with = [&run](std::vector<std::string> program) {
    program.insert(program.begin(), run.begin(), run.end());
    return program;
  };
  std::vector<double> times;
  for (int round = 0; round < options.rounds; ++round) {
    const Clock::time_point start = Clock::now();
    CUSPAN_RETURN_IF_ERROR(Capture(with({"true"})).status());
    times.push_back(Seconds(Clock::now() - start));
  }
  row.run_seconds = Median(times);
  CUSPAN_ASSIGN_OR_RETURN(const std::string seen,
                          Capture(with({folder + "/cuspan-bench-agents", "--look", "--seconds",
                                        Format("{}", options.seconds)})));
  std::istringstream words(seen);
  if (!(words >> row.idle_percent >> row.home_bytes >> row.other_bytes >> row.home_sockets >>
        row.other_sockets))
    return Status::Internal("the program of the run printed '{}'", seen);
  return row;
}

Status Run(const Options& options, const Origin& origin) {
  CUSPAN_ASSIGN_OR_RETURN(const std::string folder, OwnFolder());
  CUSPAN_RETURN_IF_ERROR(MakeFiles({options.json_path}));
  constexpr double kMebibyte = 1 << 20;
  std::fputs(Format("{:<5} {:>6} {:>7} {:>16} {:>9} {:>9} {:>12} {:>13} {:>14}\n", "relay",
                    "agents", "run, s", "idle, % of core", "home, MiB", "other", "a peer, KiB",
                    "home, sockets", "other, sockets")
                 .c_str(),
             stdout);
  nlohmann::json rows = nlohmann::json::array();
  for (const RelayKind relay : options.relays) {
    std::optional<Row> last;
    for (const int agents : options.agents) {
      CUSPAN_ASSIGN_OR_RETURN(Row row, Measure(options, folder, relay, agents));
      if (last && agents > last->agents)
        row.peer_bytes = (row.home_bytes - last->home_bytes) / (agents - last->agents);
      std::fputs(Format("{:<5} {:>6} {:>7.2f} {:>16.2f} {:>9.1f} {:>9.1f} {:>12} {:>13} {:>14}\n",
                        row.relay, row.agents, row.run_seconds, row.idle_percent,
                        row.home_bytes / kMebibyte, row.other_bytes / kMebibyte,
                        row.peer_bytes ? Format("{:.0f}", *row.peer_bytes / 1024) : "",
                        row.home_sockets, row.other_sockets)
                     .c_str(),
                 stdout);
      std::fflush(stdout);
      rows.push_back(
          {{"relay", row.relay},
           {"agents", row.agents},
           {"run_seconds", row.run_seconds},
           {"idle_percent", row.idle_percent},
           {"home_private_bytes", row.home_bytes},
           {"other_private_bytes", row.other_bytes},
           {"home_sockets", row.home_sockets},
           {"other_sockets", row.other_sockets},
           {"peer_bytes", row.peer_bytes ? nlohmann::json(*row.peer_bytes) : nlohmann::json()}});
      last = row;
    }
  }
  nlohmann::ordered_json document = JsonHead(origin);
  document["results"] = rows;
  return WriteFile(options.json_path, document.dump(2) + '\n');
}

}  // namespace
}  // namespace cuspan::bench::agents

int main(int argc, char** argv) {
  namespace bench = cuspan::bench;
  bench::agents::Options options;
  CLI::App app(
      "Runs many agents on this machine. Measures their start, and the resources they use while "
      "idle.",
      "cuspan bench agents");
  bench::AddDeviceOption(app, options.device);
  bench::AddRelaysOption(app, options.relays);
  app.add_option("--agents", options.agents,
                 "numbers of agents, including the head agent: N,… (default: 2,8,64)")
      ->type_name("N,…")
      ->delimiter(',')
      ->check(bench::Between(2, 1024));
  app.add_option("--rounds", options.rounds, "rounds of the timed run (default: 3)")
      ->type_name("N")
      ->check(bench::Between(1, 1000));
  app.add_option("--seconds", options.seconds,
                 "seconds for which idle agents are observed (default: 5)")
      ->type_name("SECONDS")
      ->check(bench::Between(0.01, 3600.0));
  app.add_flag("--look", options.look)->group("");
  bench::AddResultsOption(app, "--json", options.json_path);
  if (const std::optional<int> status = bench::Parse(app, argc, argv)) return *status;
  if (options.look) return bench::ExitStatusOf(bench::agents::Look(options.seconds));
  return bench::ExitStatusOf(bench::agents::Run(options, bench::OriginOf("agents", argc, argv)));
}

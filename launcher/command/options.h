// Command line of cuspan, parsed with CLI11.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "launcher/command/support.h"
#include "launcher/doctor/doctor.h"
#include "launcher/metrics/node_metrics.h"
#include "launcher/run/mpi_app.h"
#include "launcher/starter/agent_cluster.h"

namespace cuspan {

struct RunOptions {
  ClusterOptions cluster;
  bool statistics = false;
  bool strict = false;
  bool dry_run = false;  // Prints the agents and commands without starting them.
  std::optional<MetricsTarget> metrics;
  bool metrics_demanded = false;  // Requested on the command line, not by a setting.
  MpiProgram mpi;
  std::vector<std::string> command;
};

struct DevicesOptions {
  ClusterOptions cluster;
  bool json = false;
};

struct TopOptions {
  ClusterOptions cluster;
  bool json = false;
  bool once = false;  // Also on a terminal.
  std::chrono::milliseconds every{};
};

// `cuspan bench NAME ARGUMENTS`
struct BenchOptions {
  std::string name;
  std::vector<std::string> arguments;
};

// Parsed command line. Exactly one of run, devices, queue, top, metrics, doctor, bench, support and
// text is set.
struct CommandLine {
  std::optional<RunOptions> run;
  std::optional<DevicesOptions> devices;
  std::optional<DevicesOptions> queue;  // `cuspan queue`; it has the same options.
  std::optional<TopOptions> top;
  std::optional<NodeMetricsOptions> metrics;
  std::optional<DoctorOptions> doctor;
  std::optional<BenchOptions> bench;
  std::optional<SupportOptions> support;
  std::string text;  // Output of --help, --version, store and the like.
};

// Errors are one sentence for the user. kNotFound: the command line names no existing command.
Result<CommandLine> ParseCommandLine(int argc, const char* const* argv);

}  // namespace cuspan

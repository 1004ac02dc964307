// The command line of cuspan, read with CLI11.
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
  bool dry_run = false;  // Says what would be started, and starts nothing.
  std::optional<MetricsTarget> metrics;
  bool metrics_demanded = false;  // On the command line, not by the site.
  MpiApp mpi;
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

// What the command line asks for: exactly one of run, devices, queue, top, metrics, doctor, bench,
// support and text is there.
struct CommandLine {
  std::optional<RunOptions> run;
  std::optional<DevicesOptions> devices;
  std::optional<DevicesOptions> queue;  // `cuspan queue`, which has the same options.
  std::optional<TopOptions> top;
  std::optional<NodeMetricsOptions> metrics;
  std::optional<DoctorOptions> doctor;
  std::optional<BenchOptions> bench;
  std::optional<SupportOptions> support;
  std::string text;  // To print: of --help and --version.
};

// Failures are one sentence for the user; kNotFound: the command line names no command that
// there is.
Result<CommandLine> ParseCommandLine(int argc, const char* const* argv);

}  // namespace cuspan

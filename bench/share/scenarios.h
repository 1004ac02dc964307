// Measurements of runs sharing a GPU.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/status.h"

namespace cuspan::bench::share {

struct Options {
  std::string device = "auto";
  std::vector<std::string> scenarios;  // Names of scenarios.
  double seconds = 5;
  int bursts = 100;
  int kills = 200;
  std::string csv_path;
  std::string json_path;
};

// One figure of one program in one arrangement.
struct Row {
  std::string scenario;
  std::string arrangement;  // alone, plain (processes under the driver alone), mps, share, pair
  std::string program;
  std::string figure;  // Name, with its unit.
  double value = 0;
  std::optional<double> ratio;  // Relative to the program alone.
};

std::vector<std::string> ScenarioNames();

// Runs the scenarios of the options in their order. Prints its progress on standard error.
Result<std::vector<Row>> Measure(const Options& options);

}  // namespace cuspan::bench::share

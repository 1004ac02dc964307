// Options and results of cuspan bench store.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/common/command.h"
#include "common/status.h"

namespace cuspan::bench::store {

struct Options {
  std::string device = "auto";
  std::string hosts = "localhost";
  std::vector<RelayKind> relays;
  std::vector<std::string> scenarios;
  std::string folder = "/var/tmp";
  std::string cufile;  // NVIDIA's libcufile.so.0; empty: none.
  int mebibytes = 16384;
  int rounds = 3;
  std::string csv_path;
  std::string json_path;
};

// Results of a scenario, in the three forms.
struct Results {
  std::string table;
  std::string csv;  // Rows of scenario,figure,place,relay,unit,value,ratio_local,ratio_by_hand,
                    // ratio_nvidia,ratio_plain.
  nlohmann::json rows = nlohmann::json::array();
};

// A row for all forms but the table. Ratios may be empty.
struct Row {
  std::string scenario;
  std::string figure;
  std::string place;  // local, same-node or agents.
  std::string relay;  // Between agents; else empty.
  std::string unit;
  double value = 0;
  std::string to_local;
  std::string to_hand;
  std::string to_nvidia;
  std::string to_plain;
};
void Add(const Row& row, Results& results);

// Command of a run with the GPU on the program's node.
std::vector<std::string> RunHere(const Options& options, const std::string& cuspan);
// The same through agents. `files`: of --files.
std::vector<std::string> RunAway(const Options& options, const std::string& cuspan,
                                 const std::string& relay, const std::string& files);

}  // namespace cuspan::bench::store

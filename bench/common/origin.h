// Origin of results: fields at the head of every result file.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace cuspan::bench {

struct Origin {
  std::string benchmark;
  std::string machine;  // Cores, processor, GPUs, kernel.
  std::string date;     // Start time, UTC.
  std::string version;
  std::string command;
  std::string device;  // "cuda" or "soft", "auto" if unknown here; empty: omitted.
  int rounds = 0;      // Rounds of measurements; 0: omitted.
};

// Origin of this process, started as `cuspan bench BENCHMARK ARGUMENTS`.
Origin OriginOf(const std::string& benchmark, int argc, const char* const* argv);

// Lines "# FIELD: VALUE", before the line of column names.
std::string CsvHead(const Origin& origin);
// Object for the results.
nlohmann::ordered_json JsonHead(const Origin& origin);

}  // namespace cuspan::bench

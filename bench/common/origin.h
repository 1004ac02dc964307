// Where results come from: the fields at the head of every file of results.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace cuspan::bench {

struct Origin {
  std::string benchmark;
  std::string machine;  // Cores, processor, GPUs, kernel.
  std::string date;     // Of the start, UTC.
  std::string version;
  std::string command;
  std::string device;  // "cuda" or "soft", "auto" where it is not known here; empty: not told.
  int rounds = 0;      // Of all measurements; 0: not told.
};

// That of this process, started as `cuspan bench BENCHMARK ARGUMENTS`.
Origin OriginOf(const std::string& benchmark, int argc, const char* const* argv);

// Lines "# FIELD: VALUE", to stand before the line of column names.
std::string CsvHead(const Origin& origin);
// An object to which the results are added.
nlohmann::ordered_json JsonHead(const Origin& origin);

}  // namespace cuspan::bench

// Rows of the table: their measurement and their verdict.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace cuspan::bench::soft {

struct RowSpec {
  const char* key;
  std::string (*title)();
  const char* unit;  // Printed unit of `measured`.
  double must, aim;
  bool more_is_better;  // Otherwise, less is better.
};

struct Samples {
  double least = 0;
  double median = 0;
};

struct RowResult {
  const RowSpec* spec = nullptr;
  Status status;                // Reason for a missing result.
  double measured = 0;          // The judged value, in the row's unit.
  std::optional<Samples> ours;  // Seconds, if times are compared.
  std::optional<Samples> reference;
  std::string reference_name;  // Name of `reference` if it is not plain C++.
};

enum class Verdict { kAim, kMust, kMissed, kFailed };
Verdict Judge(const RowResult& result);

struct MeasureOptions {
  unsigned threads = 1;
  int repetitions = 5;
  std::vector<std::string> keys;  // Selected rows; empty: all.
};

std::span<const RowSpec> AllRows();
// True if `key` from the command line is the row's key, or its part before a "-".
bool Names(std::string_view key, const RowSpec& row);

// Measures all rows and calls `tell` for each. Fails if a process or a folder cannot be created. A
// row's failure is in its result.
Status Measure(const MeasureOptions& options, const std::function<void(const RowResult&)>& tell);

}  // namespace cuspan::bench::soft

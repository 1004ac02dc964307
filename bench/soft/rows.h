// The rows of the table: what is measured, how it is judged, and the measuring.
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
  const char* unit;  // Of `measured`, as printed.
  double must, aim;
  bool more_is_better;  // Else less is.
};

struct Samples {
  double least = 0;
  double median = 0;
};

struct RowResult {
  const RowSpec* spec = nullptr;
  Status status;                // Why there is no result.
  double measured = 0;          // In the row's unit; what is judged.
  std::optional<Samples> ours;  // Seconds, where times are compared.
  std::optional<Samples> reference;
  std::string reference_name;  // What `reference` is, when it is not plain C++.
};

enum class Verdict { kAim, kMust, kMissed, kFailed };
Verdict Judge(const RowResult& result);

struct MeasureOptions {
  unsigned threads = 1;
  int repetitions = 5;
  std::vector<std::string> keys;  // Of the rows wanted; empty: all.
};

std::span<const RowSpec> AllRows();
// Whether `key`, as it is given on the command line, is the row's or the part of it before a -.
bool Names(std::string_view key, const RowSpec& row);

// Measures row after row and tells each. Fails when a process or a folder can not be made;
// failures of a row are in its result.
Status Measure(const MeasureOptions& options, const std::function<void(const RowResult&)>& tell);

}  // namespace cuspan::bench::soft

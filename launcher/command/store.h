// `cuspan store plan`: requests under way for reads of a file by kernels, and the part of an extent
// from which reading all of it is faster.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "common/status.h"
#include "launcher/text/option_values.h"

namespace cuspan {

struct StorePlan {
  double reads_per_second = 0;         // Single lines.
  std::chrono::nanoseconds latency{};  // Time of one read.
  std::uint64_t line_bytes = 0;
  double bytes_per_second = 0;  // Long reads.
  std::optional<std::uint64_t> file_bytes;
  std::optional<double> touched;  // Part of the file's lines, 0 to 1; only with file_bytes.
};

// Errors name the option.
Result<StorePlan> CheckStorePlan(const OptionValues& values);

std::string StorePlanTable(const StorePlan& plan);

}  // namespace cuspan

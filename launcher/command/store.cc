#include "launcher/command/store.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <iterator>
#include <span>
#include <string_view>
#include <vector>

#include "common/format.h"
#include "common/settings.h"
#include "launcher/run/gpu_request.h"
#include "launcher/run/tables.h"
#include "store/layout/cost.h"
#include "store/layout/geometry.h"

namespace cuspan {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};
// The first unit at the end of a text counts. Times are ns.
constexpr Unit kRateUnits[] = {{"K", 1e3}, {"k", 1e3},  {"M", 1e6},  {"m", 1e6}, {"G", 1e9},
                               {"g", 1e9}, {"T", 1e12}, {"t", 1e12}, {"", 1}};
constexpr Unit kTimeUnits[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};

// A decimal number with one of these units, as a whole number from 1 to `highest`.
std::optional<double> ParseWithUnit(std::string_view text, std::span<const Unit> units,
                                    double highest) {
  const auto unit = std::find_if(units.begin(), units.end(),
                                 [&](const Unit& one) { return text.ends_with(one.name); });
  if (unit == units.end()) return std::nullopt;
  text.remove_suffix(unit->name.size());
  double number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  number *= unit->factor;
  if (!(number >= 1 && number <= highest)) return std::nullopt;
  return std::round(number);
}

constexpr double kMaxRate = 1e15;
constexpr double kMaxLatency = 1e12;  // ns.

Result<double> ParseRate(const OptionValues& values, const Setting& setting, const char* meaning) {
  const std::string& text = values.Text(setting);
  if (const std::optional<double> rate = ParseWithUnit(text, kRateUnits, kMaxRate)) return *rate;
  return Status::Invalid("{} {}: write {} per second from 1 to 1000T, such as {}", setting.option,
                         text, meaning, setting.default_value);
}

// A rate in decimal units, as storage has them.
std::string BandwidthText(double bytes_per_second) {
  constexpr const char* kUnits[] = {"B/s", "KB/s", "MB/s", "GB/s", "TB/s"};
  std::size_t unit = 0;
  for (; bytes_per_second >= 1000 && unit + 1 < std::size(kUnits); ++unit) bytes_per_second /= 1000;
  return Format("{:.1f} {}", bytes_per_second, kUnits[unit]);
}

std::string DurationText(double seconds) {
  if (seconds >= 1 || seconds == 0) return Format("{:.1f} s", seconds);
  return seconds >= 1e-3 ? Format("{:.1f} ms", seconds * 1e3) : Format("{:.1f} us", seconds * 1e6);
}

std::string BreakEvenText(std::uint64_t reads, std::uint64_t lines) {
  if (reads == 0) return "whole extents are always faster";
  if (reads == lines) return "single lines are never slower than whole extents";
  return Format("{:.1f}%: above, whole extents are faster; below, single lines",
                100 * static_cast<double>(reads) / static_cast<double>(lines));
}

// The faster way to read a file, and the difference.
std::vector<std::string> FasterRow(double by_lines, double whole) {
  if (by_lines == 0) return {"faster", "single lines", "no line is touched"};
  const double ratio = std::max(by_lines, whole) / std::min(by_lines, whole);
  if (ratio < 1.05) return {"faster", "neither", "both take the same time"};
  return {"faster", by_lines < whole ? "single lines" : "whole file",
          Format("{:.1f} times faster", ratio)};
}

}  // namespace

Result<StorePlan> CheckStorePlan(const OptionValues& values) {
  StorePlan plan;
  CUSPAN_ASSIGN_OR_RETURN(plan.reads_per_second, ParseRate(values, settings::kStoreRate, "reads"));
  const std::string& latency = values.Text(settings::kStoreLatency);
  const std::optional<double> nanoseconds = ParseWithUnit(latency, kTimeUnits, kMaxLatency);
  if (!nanoseconds)
    return Status::Invalid("--latency {}: write a time from 1ns to 1000s, such as 170us or 2ms",
                           latency);
  plan.latency = std::chrono::nanoseconds(std::llround(*nanoseconds));
  const std::string& line = values.Text(settings::kStoreLine);
  plan.line_bytes = ParseSize(line).value_or(0);
  if (!std::has_single_bit(plan.line_bytes) || plan.line_bytes < store::kMinLine ||
      plan.line_bytes > store::kMaxLine)
    return Status::Invalid("--line {}: write a power of two from {} to {}", line, store::kMinLine,
                           store::kMaxLine);
  CUSPAN_ASSIGN_OR_RETURN(plan.bytes_per_second,
                          ParseRate(values, settings::kStoreBandwidth, "bytes"));
  if (values.Given(settings::kStoreFile)) {
    const std::string& file = values.Text(settings::kStoreFile);
    plan.file_bytes = ParseSize(file);
    if (plan.file_bytes.value_or(0) == 0)
      return Status::Invalid("--file {}: write a size such as 40G", file);
  }
  if (!values.Given(settings::kStoreTouched)) return plan;
  const std::string& touched = values.Text(settings::kStoreTouched);
  if (!plan.file_bytes)
    return Status::Invalid("--touched {} needs --file: give the size of the file", touched);
  double part = 0;
  const char* const end = touched.data() + touched.size();
  const auto parsed = std::from_chars(touched.data(), end, part, std::chars_format::fixed);
  if (parsed.ec != std::errc{} || parsed.ptr != end || !(part >= 0 && part <= 1))
    return Status::Invalid(
        "--touched {}: write a part of the file's lines from 0 to 1, such as 0.1", touched);
  plan.touched = part;
  return plan;
}

std::string StorePlanTable(const StorePlan& plan) {
  const std::uint64_t lines = store::kExtentBytes / plan.line_bytes;
  const std::uint64_t reads =
      std::min(lines, store::SingleReadsLikeAnExtent(plan.reads_per_second, plan.bytes_per_second));
  const auto line = static_cast<double>(plan.line_bytes);
  std::vector<std::vector<std::string>> rows = {
      {"quantity", "value", "meaning"},
      {"requests under way",
       std::to_string(store::RequestsUnderWay(plan.reads_per_second, plan.latency)),
       "as many warps at least: each has one at a time"},
      {"single lines", BandwidthText(plan.reads_per_second * line), "at this rate of reads"},
      {"reads like an extent", Format("{} of {}", reads, lines), BreakEvenText(reads, lines)}};
  if (plan.file_bytes) {
    const double whole = static_cast<double>(*plan.file_bytes) / plan.bytes_per_second;
    rows.push_back({"whole file", DurationText(whole), "by long reads"});
    if (plan.touched) {
      const double of_file = std::ceil(static_cast<double>(*plan.file_bytes) / line);
      const double by_lines = *plan.touched * of_file / plan.reads_per_second;
      rows.push_back({"touched lines", DurationText(by_lines), "by single reads"});
      rows.push_back(FasterRow(by_lines, whole));
    }
  }
  return AlignColumns(rows);
}

}  // namespace cuspan

// Log lines for machines (CUSPAN_LOG_FORMAT=json): one JSON object each. Pure functions.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cuspan {

struct JsonLogLine {
  std::chrono::system_clock::time_point time;
  std::string_view level;      // A level's name in CUSPAN_LOG.
  std::string_view name;       // The process's name, before the colon of a plain line.
  std::string_view component;  // "launcher", "agent", "proxy", "client", …
  std::string_view process;    // Name of the executable.
  int pid = 0;
  std::string_view host;
  std::string_view run;  // Empty if not known.
  std::optional<std::uint32_t> session;
  std::optional<std::uint32_t> device;  // The GPU's number in the host's driver.
  std::string_view message;
  std::uint64_t omitted = 0;  // Similar lines suppressed before this one.
};

// Ends with a line break. Invalid UTF-8 becomes U+FFFD.
std::string ToJson(const JsonLogLine& line);

// Converts one of cuspan's JSON lines into the equivalent plain line, with a line break. nullopt if
// `line` is not one.
std::optional<std::string> TextOfJsonLine(std::string_view line);

// Adds the number of omitted similar lines to one of cuspan's lines.
std::string WithOmitted(std::string_view line, std::uint64_t omitted);

}  // namespace cuspan

// Lines of the log for machines (CUSPAN_LOG_FORMAT=json): one JSON object each. Pure functions.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cuspan {

struct JsonLogLine {
  std::chrono::system_clock::time_point time;
  std::string_view level;      // As CUSPAN_LOG has it.
  std::string_view name;       // Of the process, as it stands before the colon of a plain line.
  std::string_view component;  // "launcher", "agent", "proxy", "client", …
  std::string_view process;    // Of the executable.
  int pid = 0;
  std::string_view host;
  std::string_view run;  // Empty: not known.
  std::optional<std::uint32_t> session;
  std::optional<std::uint32_t> device;  // As the host's driver counts.
  std::string_view message;
  std::uint64_t omitted = 0;  // Lines like this one, before it.
};

// With a line break. What is not UTF-8 becomes U+FFFD.
std::string ToJson(const JsonLogLine& line);

// The plain line that says the same as the line of cuspan's in `line`, with a line break; nullopt
// when it is none.
std::optional<std::string> TextOfJsonLine(std::string_view line);

// The line, of cuspan's, with how many like it were omitted.
std::string WithOmitted(std::string_view line, std::uint64_t omitted);

}  // namespace cuspan

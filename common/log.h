// The log on standard error. Each line is one write, so lines of several processes never mix. Lines
// for a person are "cuspan: …". With CUSPAN_LOG_FORMAT=json each line is a JSON object
// (json_log.h). The level comes from CUSPAN_LOG (error, warn, info, debug; default warn). Threads:
// any. Nothing here is ever destroyed, so calls during process exit are safe.
//
// Errors and warnings are of one kind if they have the same format. Their rate is limited per kind
// (log_limiter.h); the next line written gives the number left out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/format.h"
#include "common/status.h"

namespace cuspan {

enum class LogLevel { kError, kWarn, kInfo, kDebug };

// True if lines of `level` are written.
bool LogEnabled(LogLevel level);
// Writes one line. The caller is responsible for line breaks inside `message`. Lines with equal
// `kind` are limited together; for "{}", lines with the same text.
void LogLine(LogLevel level, std::string_view kind, std::string_view message);
// Names this process in its lines: "cuspan proxy[n1:0]: …". For JSON lines, `component` is the kind
// of process, and `device` the number of its GPU in the host's driver. Call before threads start.
void SetLogName(std::string_view name, std::string_view component,
                std::optional<std::uint32_t> device = std::nullopt);
// From now on JSON lines contain the run, and the session unless it is nullopt.
void SetLogRun(std::string_view run, std::optional<std::uint32_t> session = std::nullopt);
// kInvalid if CUSPAN_LOG or CUSPAN_LOG_FORMAT has no valid value: warn and text are used.
Status CheckLogSettings();
// From now on writing a line never blocks. If standard error is full, the line is left out, and the
// next one gives the number left out. For processes on which others wait. Call before threads
// start.
void KeepLogFromWaiting();
// Passes on a line of another process, including its line break. cuspan's lines of all processes
// are of one kind if they differ only in words with digits. If the level includes info, all lines
// are passed on. With JSON lines, any other line becomes the message of an object.
void LogPassedOn(std::string_view line);
// Converts JSON lines into plain lines.
std::string LogText(std::string_view lines);

template <typename... Args>
void LogFormatted(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  const fmt::string_view kind = format;
  if (LogEnabled(level))
    LogLine(level, {kind.data(), kind.size()}, Format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void LogError(fmt::format_string<Args...> format, Args&&... args) {
  LogFormatted<Args...>(LogLevel::kError, format, std::forward<Args>(args)...);
}
template <typename... Args>
void LogWarn(fmt::format_string<Args...> format, Args&&... args) {
  LogFormatted<Args...>(LogLevel::kWarn, format, std::forward<Args>(args)...);
}
template <typename... Args>
void LogInfo(fmt::format_string<Args...> format, Args&&... args) {
  LogFormatted<Args...>(LogLevel::kInfo, format, std::forward<Args>(args)...);
}
template <typename... Args>
void LogDebug(fmt::format_string<Args...> format, Args&&... args) {
  LogFormatted<Args...>(LogLevel::kDebug, format, std::forward<Args>(args)...);
}

}  // namespace cuspan

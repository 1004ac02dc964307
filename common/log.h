// Lines for a person on standard error: "cuspan: …", one write each, so that
// lines of several processes never mix; or, with CUSPAN_LOG_FORMAT=json, for machines: an object a
// line (json_log.h). The level comes from CUSPAN_LOG (error, warn, info, debug; default warn). Any
// thread may call; nothing here is ever destroyed, so calls during process exit are safe.
//
// Errors and warnings of one kind, made by the same format, are written a few times at once and
// then some times a minute (log_limiter.h); the next one says how many were left out.
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

// True when lines of `level` are written.
bool LogEnabled(LogLevel level);
// Writes one line; a line break inside `message` is the caller's affair. `kind` says which lines
// are alike; "{}": those of the same text.
void LogLine(LogLevel level, std::string_view kind, std::string_view message);
// Names this process in its lines: "cuspan proxy[n1:0]: …". For machines `component` says what it
// is, and `device` which GPU it serves, as the host's driver counts. Call before threads start.
void SetLogName(std::string_view name, std::string_view component,
                std::optional<std::uint32_t> device = std::nullopt);
// Lines for machines name the run, and what is not nullopt of the session, from now on.
void SetLogRun(std::string_view run, std::optional<std::uint32_t> session = std::nullopt);
// kInvalid when CUSPAN_LOG or CUSPAN_LOG_FORMAT are not what they may be: warn and text are used.
Status CheckLogSettings();
// From now on no line waits for whoever reads standard error: what finds it full is left out, and
// the next line says how much. For processes on which others wait. Call before threads start.
void KeepLogFromWaiting();
// Passes on a line that another process has written, its line break included. Lines of cuspan's
// that differ in words with digits only are of one kind, whichever process they are from; where the
// level lets more through than warnings, all are passed on. For machines, what is no object becomes
// the message of one.
void LogPassedOn(std::string_view line);
// Such lines, as they are for a person.
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

// Lines for a person on standard error: "cuspan: …", one write each, so that
// lines of several processes never mix. The level comes from CUSPAN_LOG
// (error, warn, info, debug; default warn). Any thread may call; nothing here
// is ever destroyed, so calls during process exit are safe.
#pragma once

#include <string_view>
#include <utility>

#include "common/format.h"

namespace cuspan {

enum class LogLevel { kError, kWarn, kInfo, kDebug };

// True when lines of `level` are written.
bool LogEnabled(LogLevel level);
// Writes one line; a line break inside `message` is the caller's affair.
void LogLine(LogLevel level, std::string_view message);
// Names this process in its lines: "cuspan proxy[n1:0]: …". Call before threads start.
void SetLogName(std::string_view name);

template <typename... Args>
void LogError(fmt::format_string<Args...> format, Args&&... args) {
  LogLine(LogLevel::kError, Format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void LogWarn(fmt::format_string<Args...> format, Args&&... args) {
  if (LogEnabled(LogLevel::kWarn))
    LogLine(LogLevel::kWarn, Format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void LogInfo(fmt::format_string<Args...> format, Args&&... args) {
  if (LogEnabled(LogLevel::kInfo))
    LogLine(LogLevel::kInfo, Format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void LogDebug(fmt::format_string<Args...> format, Args&&... args) {
  if (LogEnabled(LogLevel::kDebug))
    LogLine(LogLevel::kDebug, Format(format, std::forward<Args>(args)...));
}

}  // namespace cuspan

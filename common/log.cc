#include "common/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <memory>
#include <string>

namespace cuspan {
namespace {

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kDebug:
      return spdlog::level::debug;
  }
  return spdlog::level::err;
}

spdlog::logger* MakeLogger() {
  auto* logger = new spdlog::logger("cuspan", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern("%n: %v");
  logger->flush_on(spdlog::level::trace);
  const char* wanted = std::getenv("CUSPAN_LOG");
  logger->set_level(wanted == nullptr ? spdlog::level::warn : spdlog::level::from_str(wanted));
  return logger;
}

// Not in spdlog's registry, which is destroyed at exit while threads may still log.
spdlog::logger*& Logger() {
  static spdlog::logger* logger = MakeLogger();
  return logger;
}

}  // namespace

bool LogEnabled(LogLevel level) { return Logger()->should_log(ToSpdlog(level)); }

void LogLine(LogLevel level, std::string_view message) {
  Logger()->log(ToSpdlog(level), spdlog::string_view_t(message.data(), message.size()));
}

void SetLogName(std::string_view name) {
  auto* renamed =
      new spdlog::logger(std::string(name), Logger()->sinks().begin(), Logger()->sinks().end());
  renamed->set_pattern("%n: %v");
  renamed->flush_on(spdlog::level::trace);
  renamed->set_level(Logger()->level());
  Logger() = renamed;
}

}  // namespace cuspan

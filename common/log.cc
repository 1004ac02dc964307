#include "common/log.h"

#include <fcntl.h>
#include <poll.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>

#include "common/json_log.h"
#include "common/log_limiter.h"
#include "common/mutex.h"
#include "common/settings.h"

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

const char* LevelText(LogLevel level) {
  switch (level) {
    case LogLevel::kError:
      return "error";
    case LogLevel::kWarn:
      return "warn";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kDebug:
      return "debug";
  }
  return "error";
}

bool IsForMachines() {
  static const bool is = std::strcmp(SettingText(settings::kLogFormat), "json") == 0;
  return is;
}

// Fields of JSON lines identifying this process.
struct Identity {
  Mutex mutex;
  std::string name CUSPAN_GUARDED_BY(mutex) = "cuspan";
  std::string component CUSPAN_GUARDED_BY(mutex) = "client";
  std::string run CUSPAN_GUARDED_BY(mutex);
  std::optional<std::uint32_t> session CUSPAN_GUARDED_BY(mutex);
  std::optional<std::uint32_t> device CUSPAN_GUARDED_BY(mutex);
};

Identity& OwnIdentity() {
  static auto* const identity = new Identity;
  return *identity;
}

std::string LineForMachines(LogLevel level, std::string_view message, std::uint64_t omitted) {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  Identity& own = OwnIdentity();
  const MutexLock lock(own.mutex);
  JsonLogLine line;
  line.time = std::chrono::system_clock::now();
  line.level = LevelText(level);
  line.name = own.name;
  line.component = own.component;
  line.process = program_invocation_short_name;
  line.pid = ::getpid();
  line.host = host.data();
  line.run = own.run;
  line.session = own.session;
  line.device = own.device;
  line.message = message;
  line.omitted = omitted;
  return ToJson(line);
}

// Standard error, one write per line.
class StandardError final : public spdlog::sinks::base_sink<Mutex> {
 public:
  void KeepFromWaiting() {
    const MutexLock lock(mutex_);
    struct stat file {};
    if (::fstat(STDERR_FILENO, &file) != 0 || S_ISREG(file.st_mode)) return;
    waits_ = false;
    is_socket_ = S_ISSOCK(file.st_mode);
    if (is_socket_) return;
    // A separate open file description: O_NONBLOCK must not affect the pipe's or terminal's other
    // users.
    const int own =
        ::open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_APPEND | O_CLOEXEC);
    if (own >= 0) fd_ = own;
  }

  void Write(std::string_view text) {
    const MutexLock lock(mutex_);
    WriteLocked(text);
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override CUSPAN_REQUIRES(mutex_) {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    WriteLocked({line.data(), line.size()});
  }
  void flush_() override {}

 private:
  void WriteLocked(std::string_view text) CUSPAN_REQUIRES(mutex_) {
    if (left_out_ != 0) {
      const std::string text =
          Format("{} lines were omitted here because standard error was not read", left_out_);
      const std::string notice = IsForMachines() ? LineForMachines(LogLevel::kWarn, text, 0)
                                                 : Format("cuspan: {}\n", text);
      if (!WriteOnce(notice)) return static_cast<void>(++left_out_);
      left_out_ = 0;
    }
    if (!WriteOnce(text)) ++left_out_;
  }

  // Returns false if writing would block.
  bool WriteOnce(std::string_view text) CUSPAN_REQUIRES(mutex_) {
    while (!text.empty()) {
      // If there is no separate description, polls first. Another process may still use up the free
      // space in between.
      if (!waits_ && !is_socket_ && fd_ == STDERR_FILENO) {
        pollfd room{fd_, POLLOUT, 0};
        if (::poll(&room, 1, 0) == 0) return false;
      }
      const ssize_t written =
          is_socket_ ? ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT)
                     : ::write(fd_, text.data(), text.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return errno != EAGAIN && errno != EWOULDBLOCK;
      text.remove_prefix(static_cast<std::size_t>(written));
    }
    return true;
  }

  int fd_ CUSPAN_GUARDED_BY(mutex_) = STDERR_FILENO;
  bool waits_ CUSPAN_GUARDED_BY(mutex_) = true;
  bool is_socket_ CUSPAN_GUARDED_BY(mutex_) = false;
  // Lines left out since the last one written.
  std::uint64_t left_out_ CUSPAN_GUARDED_BY(mutex_) = 0;
};

StandardError& Output() {
  // Shared with the logger; never destroyed.
  static auto* const output = new std::shared_ptr<StandardError>(std::make_shared<StandardError>());
  return **output;
}

std::shared_ptr<StandardError> SharedOutput() { return {std::shared_ptr<void>(), &Output()}; }

std::optional<spdlog::level::level_enum> LevelNamed(const char* name) {
  const spdlog::level::level_enum level = spdlog::level::from_str(name);
  const bool known = level != spdlog::level::off || std::strcmp(name, "off") == 0;
  return known ? std::optional(level) : std::nullopt;
}

spdlog::logger* MakeLogger() {
  auto* logger = new spdlog::logger("cuspan", SharedOutput());
  logger->set_pattern("%n: %v");
  logger->flush_on(spdlog::level::trace);
  logger->set_level(LevelNamed(SettingText(settings::kLog)).value_or(spdlog::level::warn));
  return logger;
}

// Not in spdlog's registry: it is destroyed at exit while threads may still log.
spdlog::logger*& Logger() {
  static spdlog::logger* logger = MakeLogger();
  return logger;
}

LogLimiter::Verdict CountLine(std::string_view kind) {
  static auto* const mutex = new Mutex;
  static auto* const limiter CUSPAN_PT_GUARDED_BY(*mutex) = new LogLimiter;
  const MutexLock lock(*mutex);
  return limiter->Judge(kind, LogLimiter::Clock::now());
}

std::string WithLeftOut(std::string_view line, std::uint64_t left_out) {
  return Format("{} ({} similar lines omitted)", line, left_out);
}

// Replaces each word containing a digit by "#".
std::string WithoutNumbers(std::string_view line) {
  std::string kind;
  while (!line.empty()) {
    const std::size_t word = line.find_first_of(" \n");
    const std::string_view next = line.substr(0, word);
    kind += next.find_first_of("0123456789") == std::string_view::npos ? next : "#";
    kind += ' ';
    line.remove_prefix(word == std::string_view::npos ? line.size() : word + 1);
  }
  return kind;
}

}  // namespace

bool LogEnabled(LogLevel level) { return Logger()->should_log(ToSpdlog(level)); }

void LogLine(LogLevel level, std::string_view kind, std::string_view message) {
  const spdlog::level::level_enum spdlog_level = ToSpdlog(level);
  LogLimiter::Verdict verdict;
  if (level == LogLevel::kError || level == LogLevel::kWarn)
    verdict = CountLine(kind == "{}" ? message : kind);
  if (!verdict.write) return;
  if (IsForMachines()) {
    if (LogEnabled(level)) Output().Write(LineForMachines(level, message, verdict.left_out));
    return;
  }
  std::string whole;
  if (verdict.left_out != 0) {
    whole = WithLeftOut(message, verdict.left_out);
    message = whole;
  }
  Logger()->log(spdlog_level, spdlog::string_view_t(message.data(), message.size()));
}

void SetLogName(std::string_view name, std::string_view component,
                std::optional<std::uint32_t> device) {
  Identity& own = OwnIdentity();
  {
    const MutexLock lock(own.mutex);
    own.name = name;
    own.component = component;
    own.device = device;
  }
  auto* renamed =
      new spdlog::logger(std::string(name), Logger()->sinks().begin(), Logger()->sinks().end());
  renamed->set_pattern("%n: %v");
  renamed->flush_on(spdlog::level::trace);
  renamed->set_level(Logger()->level());
  Logger() = renamed;
}

void SetLogRun(std::string_view run, std::optional<std::uint32_t> session) {
  Identity& own = OwnIdentity();
  const MutexLock lock(own.mutex);
  own.run = run;
  if (session) own.session = session;
}

Status CheckLogSettings() {
  if (!LevelNamed(SettingText(settings::kLog)))
    return Status::Invalid("{} must be error, warn, info or debug, not '{}'", settings::kLog.name,
                           SettingText(settings::kLog));
  const std::string_view format = SettingText(settings::kLogFormat);
  if (format != "text" && format != "json")
    return Status::Invalid("{} must be text or json, not '{}'", settings::kLogFormat.name, format);
  return Status::Ok();
}

void KeepLogFromWaiting() { Output().KeepFromWaiting(); }

void LogPassedOn(std::string_view line) {
  const std::optional<std::string> of_object =
      IsForMachines() ? TextOfJsonLine(line) : std::nullopt;
  const std::string_view text = of_object ? std::string_view(*of_object) : line;
  LogLimiter::Verdict verdict;
  if (text.starts_with("cuspan") && !LogEnabled(LogLevel::kInfo))
    verdict = CountLine(WithoutNumbers(text));
  if (!verdict.write) return;
  if (of_object)
    return Output().Write(verdict.left_out == 0 ? std::string(line)
                                                : WithOmitted(line, verdict.left_out));
  const std::string_view message = line.substr(0, line.find_last_not_of('\n') + 1);
  if (IsForMachines())
    return Output().Write(
        LineForMachines(text.starts_with("cuspan") ? LogLevel::kError : LogLevel::kInfo, message,
                        verdict.left_out));
  if (verdict.left_out == 0) return Output().Write(line);
  Output().Write(WithLeftOut(message, verdict.left_out) + "\n");
}

std::string LogText(std::string_view lines) {
  if (!IsForMachines()) return std::string(lines);
  std::string text;
  while (!lines.empty()) {
    const std::size_t end = lines.find('\n');
    const std::string_view line = lines.substr(0, end == std::string_view::npos ? end : end + 1);
    lines.remove_prefix(line.size());
    const std::optional<std::string> of_object = TextOfJsonLine(line);
    text += of_object ? *of_object : line;
  }
  return text;
}

}  // namespace cuspan

#include "launcher/metrics/metrics_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "common/log.h"
#include "launcher/metrics/exposition.h"

namespace cuspan {
namespace {

// At least as often as Prometheus reads by default.
constexpr time_t kEverySeconds = 15;

Status WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = ::write(fd, text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return Status::Unavailable("{}", std::strerror(put < 0 ? errno : ENOSPC));
    text.remove_prefix(static_cast<std::size_t>(put));
  }
  return Status::Ok();
}

}  // namespace

Result<std::unique_ptr<MetricsOutlet>> MetricsFile::Open(const MetricsTarget& target) {
  UniqueFd timer(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  const itimerspec every{{kEverySeconds, 0}, {0, 1}};
  if (!timer.valid() || ::timerfd_settime(timer.get(), 0, &every, nullptr) != 0)
    return Status::Exhausted("--metrics: timerfd: {}", std::strerror(errno));
  std::unique_ptr<MetricsFile> file(new MetricsFile(std::move(timer), target.path));
  // Publishing replaces the file, which must not happen to a device.
  std::error_code error;
  if (const auto kind = std::filesystem::symlink_status(target.path, error).type();
      kind == std::filesystem::file_type::none)
    return Status::Invalid("--metrics: cannot write {}: {}", target.path, error.message());
  else if (kind != std::filesystem::file_type::not_found &&
           kind != std::filesystem::file_type::regular)
    return Status::Invalid("--metrics: {} is not a regular file: name another one", target.path);
  if (const Status written = file->Write(""); !written.ok())
    return Status::Invalid("--metrics: cannot write {}: {}", target.path, written.message());
  return std::unique_ptr<MetricsOutlet>(std::move(file));
}

// Writes to another name first. The collector ignores it, since it does not end with ".prom".
Status MetricsFile::Write(const std::string& text) const {
  std::string name = path_ + ".XXXXXX";
  UniqueFd fd(::mkostemp(name.data(), O_CLOEXEC));
  if (!fd.valid()) return Status::Unavailable("{}", std::strerror(errno));
  // The collector runs as another user.
  ::fchmod(fd.get(), 0644);
  Status status = WriteAll(fd.get(), text);
  if (status.ok() && ::rename(name.c_str(), path_.c_str()) != 0)
    status = Status::Unavailable("{}", std::strerror(errno));
  if (!status.ok()) ::unlink(name.c_str());
  return status;
}

void MetricsFile::Publish(const std::vector<prometheus::MetricFamily>& families) {
  const Status written = Write(Expose(families, MetricsFormat::kText));
  if (!written.ok() && !std::exchange(reported_, true))
    LogWarn("--metrics: cannot write {}: {}; the file may be out of date", path_,
            written.message());
}

}  // namespace cuspan

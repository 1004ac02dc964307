#include "launcher/allocator/lease_log.h"

#include <fcntl.h>
#include <time.h>

#include <cerrno>
#include <cstring>

#include "common/log.h"
#include "common/settings.h"

namespace cuspan {

LeaseLog LeaseLog::FromSettings() {
  LeaseLog log;
  const std::string_view path = SettingText(settings::kLeaseLog);
  if (path == settings::kLeaseLog.default_value) return log;
  log.file_.Reset(::open(std::string(path).c_str(),
                         O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0644));
  if (!log.file_.valid())
    LogWarn("{}={}: {}; leases are not logged", settings::kLeaseLog.name, path,
            std::strerror(errno));
  return log;
}

void LeaseLog::Add(std::string_view event, const Who& who, std::string_view gpu) const {
  if (!file_.valid()) return;
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  const std::string line =
      Format("{}.{:09} {} host={} gpu={} order={} run={} user={}\n", now.tv_sec, now.tv_nsec, event,
             who.host, gpu, who.order, who.run, who.user);
  if (::write(file_.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    LogWarn("{}: writing failed: {}", settings::kLeaseLog.name, std::strerror(errno));
}

}  // namespace cuspan

#include "launcher/metrics/metrics_outlet.h"

#include <unistd.h>

#include <cstdint>

#include "launcher/metrics/metrics_file.h"
#include "launcher/metrics/metrics_server.h"

namespace cuspan {

Result<std::unique_ptr<MetricsOutlet>> MetricsOutlet::Open(const MetricsTarget& target) {
  return target.kind == MetricsTarget::Kind::kFile ? MetricsFile::Open(target)
                                                   : MetricsServer::Open(target);
}

void MetricsOutlet::ConsumeRequest() {
  std::uint64_t times = 0;
  [[maybe_unused]] const ssize_t got = ::read(request_.get(), &times, sizeof times);
}

}  // namespace cuspan

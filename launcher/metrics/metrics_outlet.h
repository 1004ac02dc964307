// Output of the metrics of one process: HTTP or a file.
#pragma once

#include <prometheus/metric_family.h>

#include <memory>
#include <vector>

#include "common/status.h"
#include "common/unique_fd.h"
#include "launcher/metrics/metrics_target.h"

namespace cuspan {

// Threads: one. An outlet may have threads of its own.
class MetricsOutlet {
 public:
  // Listens, or creates the file. Its threads have all signals blocked. An error includes the
  // remedy.
  static Result<std::unique_ptr<MetricsOutlet>> Open(const MetricsTarget& target);
  virtual ~MetricsOutlet() = default;

  // Readable when a reader requests current metrics.
  int fd() const { return request_.get(); }
  // Call when fd() is readable: resets it until the next request.
  void ConsumeRequest();
  // True: requests are answered by the next Publish. False: at once, with the last published
  // metrics.
  virtual void SetLive(bool) {}
  // Publishes current metrics, for all pending requests.
  virtual void Publish(const std::vector<prometheus::MetricFamily>& families) = 0;
  // True if the last published metrics remain for later readers.
  virtual bool lasts() const = 0;

 protected:
  explicit MetricsOutlet(UniqueFd request) : request_(std::move(request)) {}

 private:
  const UniqueFd request_;  // An eventfd or a timerfd.
};

}  // namespace cuspan

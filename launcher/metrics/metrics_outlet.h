// Where the metrics of one process come out: by HTTP, or in a file.
#pragma once

#include <prometheus/metric_family.h>

#include <memory>
#include <vector>

#include "common/status.h"
#include "common/unique_fd.h"
#include "launcher/metrics/metrics_target.h"

namespace cuspan {

// One thread, beside which an outlet may have its own.
class MetricsOutlet {
 public:
  // Listens, or begins the file. Threads that it starts take no signals. A failure says what to do.
  static Result<std::unique_ptr<MetricsOutlet>> Open(const MetricsTarget& target);
  virtual ~MetricsOutlet() = default;

  // Readable when somebody wants the metrics as they are now.
  int fd() const { return request_.get(); }
  // After fd() has become readable: it is not any more, until the next request.
  void ConsumeRequest();
  // Whether requests are heard. Else who asks gets what was published last, at once.
  virtual void SetLive(bool) {}
  // The metrics as they are now, for all who have asked.
  virtual void Publish(const std::vector<prometheus::MetricFamily>& families) = 0;
  // Whether what is published last is kept, for readers that come later.
  virtual bool lasts() const = 0;

 protected:
  explicit MetricsOutlet(UniqueFd request) : request_(std::move(request)) {}

 private:
  const UniqueFd request_;  // An eventfd or a timerfd.
};

}  // namespace cuspan

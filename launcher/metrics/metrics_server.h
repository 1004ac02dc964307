// Metrics by HTTP, at /metrics of a TCP port or of a Unix socket.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "common/mutex.h"
#include "launcher/metrics/metrics_outlet.h"

namespace httplib {
class Server;
}

namespace cuspan {

// Publish is for one thread; requests are served by two others.
class MetricsServer final : public MetricsOutlet {
 public:
  static Result<std::unique_ptr<MetricsOutlet>> Open(const MetricsTarget& target);
  // Requests that wait are answered with what was published last.
  ~MetricsServer() override;
  void Publish(const std::vector<prometheus::MetricFamily>& families) override;
  bool lasts() const override { return false; }

 private:
  MetricsServer(UniqueFd wish, const MetricsTarget& target);
  Status Listen();
  // What was published after it was called; nothing where that takes too long, or all ends.
  std::shared_ptr<const std::vector<prometheus::MetricFamily>> Fresh();

  const MetricsTarget target_;
  const std::unique_ptr<httplib::Server> server_;
  std::thread listener_;
  Mutex mutex_;
  std::condition_variable published_;
  std::shared_ptr<const std::vector<prometheus::MetricFamily>> families_ CUSPAN_GUARDED_BY(mutex_);
  std::uint64_t publications_ CUSPAN_GUARDED_BY(mutex_) = 0;
  bool ends_ CUSPAN_GUARDED_BY(mutex_) = false;
};

}  // namespace cuspan

// Metrics in a file for the textfile collector of node_exporter, replaced atomically every 15
// seconds.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "launcher/metrics/metrics_outlet.h"

namespace cuspan {

// Threads: one. The destructor keeps the file.
class MetricsFile final : public MetricsOutlet {
 public:
  static Result<std::unique_ptr<MetricsOutlet>> Open(const MetricsTarget& target);
  // Logs only the first failure.
  void Publish(const std::vector<prometheus::MetricFamily>& families) override;
  bool lasts() const override { return true; }

 private:
  MetricsFile(UniqueFd timer, std::string path)
      : MetricsOutlet(std::move(timer)), path_(std::move(path)) {}
  Status Write(const std::string& text) const;

  const std::string path_;
  bool reported_ = false;
};

}  // namespace cuspan

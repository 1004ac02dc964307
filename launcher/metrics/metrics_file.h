// Metrics in a file, for the textfile collector of node_exporter: written anew every 15 seconds,
// and never seen half written.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "launcher/metrics/metrics_outlet.h"

namespace cuspan {

// The file stays when the object goes. One thread.
class MetricsFile final : public MetricsOutlet {
 public:
  static Result<std::unique_ptr<MetricsOutlet>> Open(const MetricsTarget& target);
  // A failure is told once.
  void Publish(const std::vector<prometheus::MetricFamily>& families) override;
  bool lasts() const override { return true; }

 private:
  MetricsFile(UniqueFd timer, std::string path)
      : MetricsOutlet(std::move(timer)), path_(std::move(path)) {}
  Status Write(const std::string& text) const;

  const std::string path_;
  bool told_ = false;
};

}  // namespace cuspan

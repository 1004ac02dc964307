// Putting families of metrics together, in the model of prometheus-cpp.
#pragma once

#include <prometheus/metric_family.h>

#include <string>
#include <utility>
#include <vector>

namespace cuspan {

using MetricLabels = std::vector<prometheus::ClientMetric::Label>;

// One family. Names end with the unit, and those of counters with "_total", as the conventions of
// Prometheus have it (prometheus.io/docs/practices/naming).
class Family {
 public:
  static Family Counter(std::string name, std::string help) {
    return Family(std::move(name), std::move(help), prometheus::MetricType::Counter);
  }
  static Family Gauge(std::string name, std::string help) {
    return Family(std::move(name), std::move(help), prometheus::MetricType::Gauge);
  }
  void Add(MetricLabels labels, double value);
  // A family without samples is not shown.
  void MoveTo(std::vector<prometheus::MetricFamily>& families) &&;

 private:
  Family(std::string name, std::string help, prometheus::MetricType type);
  prometheus::MetricFamily family_;
};

// As the base units of Prometheus have it.
double SecondsOf(std::uint64_t nanoseconds);

}  // namespace cuspan

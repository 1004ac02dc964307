// Construction of families of metrics, in the model of prometheus-cpp.
#pragma once

#include <prometheus/metric_family.h>

#include <string>
#include <utility>
#include <vector>

namespace cuspan {

using MetricLabels = std::vector<prometheus::ClientMetric::Label>;

// One family. By Prometheus' conventions, names end with the unit, and names of counters with
// "_total" (prometheus.io/docs/practices/naming).
class Family {
 public:
  static Family Counter(std::string name, std::string help) {
    return Family(std::move(name), std::move(help), prometheus::MetricType::Counter);
  }
  static Family Gauge(std::string name, std::string help) {
    return Family(std::move(name), std::move(help), prometheus::MetricType::Gauge);
  }
  void Add(MetricLabels labels, double value);
  // A family without samples is omitted.
  void MoveTo(std::vector<prometheus::MetricFamily>& families) &&;

 private:
  Family(std::string name, std::string help, prometheus::MetricType type);
  prometheus::MetricFamily family_;
};

// Converts to Prometheus' base unit.
double SecondsOf(std::uint64_t nanoseconds);

}  // namespace cuspan

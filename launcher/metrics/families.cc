#include "launcher/metrics/families.h"

#include <cstdint>

namespace cuspan {

Family::Family(std::string name, std::string help, prometheus::MetricType type)
    : family_{std::move(name), std::move(help), type, {}} {}

void Family::Add(MetricLabels labels, double value) {
  prometheus::ClientMetric& metric = family_.metric.emplace_back();
  metric.label = std::move(labels);
  (family_.type == prometheus::MetricType::Counter ? metric.counter.value : metric.gauge.value) =
      value;
}

void Family::MoveTo(std::vector<prometheus::MetricFamily>& families) && {
  if (!family_.metric.empty()) families.push_back(std::move(family_));
}

double SecondsOf(std::uint64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-9; }

}  // namespace cuspan

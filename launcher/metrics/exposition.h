// Families of metrics as text, in the two formats that Prometheus reads.
#pragma once

#include <prometheus/metric_family.h>

#include <string>
#include <string_view>
#include <vector>

namespace cuspan {

enum class MetricsFormat {
  kText,         // Prometheus' own, version 0.0.4
  kOpenMetrics,  // version 1.0.0
};

// What a client takes that sends this header Accept. Quality values are not compared: who names
// OpenMetrics can read it.
MetricsFormat ChooseFormat(std::string_view accept);
// For the header Content-Type.
const char* ContentType(MetricsFormat format);

std::string Expose(const std::vector<prometheus::MetricFamily>& families, MetricsFormat format);

}  // namespace cuspan

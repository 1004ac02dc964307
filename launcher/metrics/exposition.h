// Families of metrics as text, in Prometheus' two formats.
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

// Format for a request with this Accept header. Quality values are ignored: a client naming
// OpenMetrics can read it.
MetricsFormat ChooseFormat(std::string_view accept);
// Value of the Content-Type header.
const char* ContentType(MetricsFormat format);

std::string Expose(const std::vector<prometheus::MetricFamily>& families, MetricsFormat format);

}  // namespace cuspan

#include "launcher/metrics/exposition.h"

#include <prometheus/text_serializer.h>

#include "common/format.h"

namespace cuspan {
namespace {

constexpr std::string_view kTotal = "_total";

// Escapes a help text or a label value: OpenMetrics 1.0.0, section "Escaping".
std::string Escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\n') {
      escaped += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

// Supports only the units in use here.
std::string_view UnitOf(std::string_view name) {
  for (const std::string_view unit : {"seconds", "bytes"})
    if (name.ends_with(unit) && name.size() > unit.size() &&
        name[name.size() - unit.size() - 1] == '_')
      return unit;
  return {};
}

// prometheus-cpp has no serializer for this format.
std::string OpenMetricsText(const std::vector<prometheus::MetricFamily>& families) {
  std::string text;
  for (const prometheus::MetricFamily& family : families) {
    const bool counter = family.type == prometheus::MetricType::Counter;
    // The name of a counter's family lacks the suffix of its samples.
    std::string_view name = family.name;
    if (counter && name.ends_with(kTotal)) name.remove_suffix(kTotal.size());
    AppendFormat(text, "# TYPE {} {}\n", name, counter ? "counter" : "gauge");
    if (const std::string_view unit = UnitOf(name); !unit.empty())
      AppendFormat(text, "# UNIT {} {}\n", name, unit);
    AppendFormat(text, "# HELP {} {}\n", name, Escaped(family.help));
    for (const prometheus::ClientMetric& metric : family.metric) {
      AppendFormat(text, "{}{}", name, counter ? kTotal : "");
      std::string_view before = "{";
      for (const prometheus::ClientMetric::Label& label : metric.label) {
        AppendFormat(text, "{}{}=\"{}\"", before, label.name, Escaped(label.value));
        before = ",";
      }
      AppendFormat(text, "{} {}\n", metric.label.empty() ? "" : "}",
                   counter ? metric.counter.value : metric.gauge.value);
    }
  }
  return text + "# EOF\n";
}

}  // namespace

MetricsFormat ChooseFormat(std::string_view accept) {
  return accept.find("application/openmetrics-text") != std::string_view::npos
             ? MetricsFormat::kOpenMetrics
             : MetricsFormat::kText;
}

const char* ContentType(MetricsFormat format) {
  return format == MetricsFormat::kOpenMetrics
             ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
             : "text/plain; version=0.0.4; charset=utf-8";
}

std::string Expose(const std::vector<prometheus::MetricFamily>& families, MetricsFormat format) {
  return format == MetricsFormat::kOpenMetrics ? OpenMetricsText(families)
                                               : prometheus::TextSerializer().Serialize(families);
}

}  // namespace cuspan

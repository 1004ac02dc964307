// Destination of metrics, as given by --metrics.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/status.h"

namespace cuspan {

struct MetricsTarget {
  enum class Kind { kTcp, kUnix, kFile };
  Kind kind = Kind::kTcp;
  std::string host;  // Address to listen at; 0.0.0.0: all.
  std::uint16_t port = 0;
  std::string path;  // Absolute path of the socket or the file.

  bool operator==(const MetricsTarget&) const = default;
};

// Parses "PORT" (this host only), ":PORT" (all addresses), "HOST:PORT", "[IPV6]:PORT", "unix:PATH",
// or else the path of a file. In paths, "%r" is the id of the run. kInvalid names the problem.
Result<MetricsTarget> ParseMetricsTarget(std::string_view text);

// Replaces "%r" by the run's id.
MetricsTarget ForRun(MetricsTarget target, std::string_view id);

// Text for the user: "http://127.0.0.1:9400/metrics", or a path.
std::string TargetText(const MetricsTarget& target);

}  // namespace cuspan

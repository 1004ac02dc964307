// Where metrics go, as --metrics has it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/status.h"

namespace cuspan {

struct MetricsTarget {
  enum class Kind { kTcp, kUnix, kFile };
  Kind kind = Kind::kTcp;
  std::string host;  // To listen at; 0.0.0.0 is all addresses.
  std::uint16_t port = 0;
  std::string path;  // Of the socket or the file, absolute.

  bool operator==(const MetricsTarget&) const = default;
};

// Reads "PORT" (this host only), ":PORT" (all addresses), "HOST:PORT", "[IPV6]:PORT", "unix:PATH",
// or else the path of a file. In paths "%r" is the id of the run. kInvalid says what is wrong.
Result<MetricsTarget> ParseMetricsTarget(std::string_view text);

// The target of run `id`.
MetricsTarget ForRun(MetricsTarget target, std::string_view id);

// For people: "http://127.0.0.1:9400/metrics", or a path.
std::string TargetText(const MetricsTarget& target);

}  // namespace cuspan

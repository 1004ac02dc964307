// Metrics of a run. Pure.
#pragma once

#include <prometheus/metric_family.h>

#include <cstdint>
#include <string>
#include <vector>

#include "protocol/wire/frame.h"

namespace cuspan {

struct RunFacts {
  std::string run;  // Id of the run.
  std::string version;
  std::string program;           // File name.
  std::string relay;             // See RunReady.
  std::uint64_t started_ns = 0;  // Nanoseconds since 1970.
  std::vector<DeviceDescription> devices;
};

struct AgentState {
  AgentMetrics metrics;  // Last values received.
  bool up = false;       // It has answered the last request.
};

// Every sample has the run's id as a label, so that one directory may contain files of many runs.
std::vector<prometheus::MetricFamily> RunFamilies(const RunFacts& facts,
                                                  const std::vector<AgentState>& agents);

}  // namespace cuspan

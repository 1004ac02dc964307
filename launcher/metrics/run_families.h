// The metrics of a run. Pure.
#pragma once

#include <prometheus/metric_family.h>

#include <cstdint>
#include <string>
#include <vector>

#include "protocol/wire/frame.h"

namespace cuspan {

struct RunFacts {
  std::string run;  // Its id.
  std::string version;
  std::string program;           // The name of its file.
  std::string relay;             // As in RunReady.
  std::uint64_t started_ns = 0;  // Since 1970.
  std::vector<DeviceDescription> devices;
};

struct AgentState {
  AgentMetrics metrics;  // As it told last.
  bool up = false;       // It has answered the last question.
};

// Every sample has the run's id as a label, so that many runs can be read from one directory.
std::vector<prometheus::MetricFamily> RunFamilies(const RunFacts& facts,
                                                  const std::vector<AgentState>& agents);

}  // namespace cuspan

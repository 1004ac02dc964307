// Metrics of hosts: their GPUs, and the runs holding or awaiting them. Pure.
#pragma once

#include <prometheus/metric_family.h>

#include <vector>

#include "protocol/wire/frame.h"

namespace cuspan {

// `found` comes from agents that only list GPUs.
std::vector<prometheus::MetricFamily> NodeFamilies(const RunReady& found);

}  // namespace cuspan

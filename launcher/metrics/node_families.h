// The metrics of hosts: their GPUs, and the runs that have them or wait. Pure.
#pragma once

#include <prometheus/metric_family.h>

#include <vector>

#include "protocol/wire/frame.h"

namespace cuspan {

// `found` is what agents say that only look.
std::vector<prometheus::MetricFamily> NodeFamilies(const RunReady& found);

}  // namespace cuspan

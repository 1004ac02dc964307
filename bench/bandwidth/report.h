// Results of a sweep as text: a table, CSV and JSON.
#pragma once

#include <string>

#include "bench/bandwidth/footprint.h"
#include "bench/bandwidth/legs.h"
#include "bench/bandwidth/sweep.h"
#include "bench/common/origin.h"

namespace cuspan::bench::bandwidth {

std::string Table(const SweepResult& result);
std::string Csv(const Origin& origin, const SweepResult& result);
// An object with an array `results` of objects. Unknown values are null.
std::string Json(const Origin& origin, const SweepResult& result, const std::vector<LegsRow>& legs,
                 const std::vector<Footprint>& footprints);

}  // namespace cuspan::bench::bandwidth

// The outcomes as a drawing.
#pragma once

#include <string>
#include <vector>

#include "bench/allocator/simulation.h"

namespace cuspan::bench {

// An SVG document: mean wait and utilisation against the load, a line for each policy.
std::string PlotOutcomes(const std::vector<Outcome>& outcomes);

}  // namespace cuspan::bench

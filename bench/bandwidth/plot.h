// A plot of a sweep: GB/s against the size of the transfer, a line for each
// size of staging buffer, and raw MPI beside them.
#pragma once

#include <string>

#include "bench/bandwidth/sweep.h"

namespace cuspan::bench {

// An SVG document of the copies of one direction and memory in one placement (one proxy,
// pipelined); empty when fewer than two sizes of transfer were measured.
std::string Plot(const SweepResult& result, const std::string& direction, const std::string& memory,
                 const std::string& placement);

}  // namespace cuspan::bench

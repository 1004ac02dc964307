// Times of a copy's legs (such as the network), each alone, compared with the pipelined copy.
//
// Alone: the copy is not pipelined, so each chunk passes one leg after the other. The time of each
// leg is taken from the trace of this run. The network's leg is instead timed at the rate of raw
// MPI with the usual window, if this is faster.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bench/bandwidth/sweep.h"

namespace cuspan::bench::bandwidth {

// One copy. Medians, in seconds.
struct LegsRow {
  std::string direction;
  std::string memory;
  std::string placement;
  std::uint64_t transfer_bytes = 0;
  std::uint64_t buffer_bytes = 0;
  std::uint64_t buffers = 0;
  double pipelined = 0;
  double not_pipelined = 0;
  std::map<std::string, double> legs;
  double slowest = 0;  // Slowest leg.
  double chunk = 0;    // One chunk through all legs.

  // Pipelined time relative to its limit: 1.1 times the slowest leg plus one chunk.
  double ratio() const { return pipelined / (1.1 * slowest + chunk); }
  // Fraction of time saved by the pipeline.
  double saved() const { return 1 - pipelined / not_pipelined; }
};

// Measures the largest transfer for each direction, memory, placement and buffer size.
Result<std::vector<LegsRow>> MeasureLegs(const SweepOptions& options);

std::string LegsTable(const std::vector<LegsRow>& rows);

}  // namespace cuspan::bench::bandwidth

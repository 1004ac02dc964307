// What the legs of a copy take, each alone, against the copy with all of them at work at once.
//
// Alone: the copy is not pipelined, so that each chunk goes leg after leg, and the trace of that
// run tells how long each leg was at it. The network's leg counts at the rate of raw MPI with the
// usual window where that is the faster one.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bench/bandwidth/sweep.h"

namespace cuspan::bench::bandwidth {

// One copy; seconds, medians.
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
  double slowest = 0;  // Of the legs.
  double chunk = 0;    // One chunk through all of them.

  // Of what a pipeline may take: 1.1 times the slowest leg and one chunk.
  double ratio() const { return pipelined / (1.1 * slowest + chunk); }
  // Of the time without a pipeline.
  double saved() const { return 1 - pipelined / not_pipelined; }
};

// For the largest transfer and each direction, memory, placement and size of buffers.
Result<std::vector<LegsRow>> MeasureLegs(const SweepOptions& options);

std::string LegsTable(const std::vector<LegsRow>& rows);

}  // namespace cuspan::bench::bandwidth

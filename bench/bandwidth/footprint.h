// Memory of proxies and agents after copies, compared with a process with only a context.
#pragma once

#include <string>
#include <vector>

#include "bench/bandwidth/sweep.h"

namespace cuspan::bench::bandwidth {

// Private dirty pages from /proc, in bytes.
struct Footprint {
  std::string placement;
  std::string process;  // cuspan-proxy or cuspan-agent; the largest of several.
  std::uint64_t private_dirty = 0;
  std::uint64_t context = 0;  // Same for a process with only a context; 0 for agents.
  std::uint64_t staging = 0;  // Staging buffers of one device, both directions.

  std::uint64_t beyond() const { return private_dirty > context ? private_dirty - context : 0; }
  std::uint64_t bound() const { return staging + (64 << 20); }
};

// Measures after copies of all sizes, in both directions, with the first buffer size. This host
// only.
Result<std::vector<Footprint>> MeasureFootprints(const SweepOptions& options);

std::string FootprintTable(const std::vector<Footprint>& footprints);

}  // namespace cuspan::bench::bandwidth

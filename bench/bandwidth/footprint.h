// The memory of proxies and agents after copies, against a process that only makes a context.
#pragma once

#include <string>
#include <vector>

#include "bench/bandwidth/sweep.h"

namespace cuspan::bench::bandwidth {

// Bytes. Private dirty pages, as /proc tells them.
struct Footprint {
  std::string placement;
  std::string process;  // cuspan-proxy or cuspan-agent; of several the largest.
  std::uint64_t private_dirty = 0;
  std::uint64_t context = 0;  // Of a process that only makes a context; 0 for agents.
  std::uint64_t staging = 0;  // The staging buffers of one device, both ways.

  std::uint64_t beyond() const { return private_dirty > context ? private_dirty - context : 0; }
  std::uint64_t bound() const { return staging + (64 << 20); }
};

// After copies of all sizes, both ways, with the first size of buffers; on this host only.
Result<std::vector<Footprint>> MeasureFootprints(const SweepOptions& options);

std::string FootprintTable(const std::vector<Footprint>& footprints);

}  // namespace cuspan::bench::bandwidth

// Cost of reads by kernels from storage: single lines compared with whole extents.
#pragma once

#include <chrono>
#include <cstdint>

namespace cuspan::store {

// Number of reads of single lines that take as long as one read of a whole extent, rounded down.
// Kernels that touch more lines of an extent are faster with the whole extent. Both rates are
// positive: `reads_per_second` of single lines with many requests under way, `bytes_per_second` of
// long reads. A result beyond 64 bits is the largest number.
std::uint64_t SingleReadsLikeAnExtent(double reads_per_second, double bytes_per_second);

// Number of requests under way at this rate and this time of one read, rounded up.
// Source: Little's law. A result beyond 64 bits is the largest number.
std::uint64_t RequestsUnderWay(double reads_per_second, std::chrono::nanoseconds latency);

}  // namespace cuspan::store

// Random numbers for kernels and for the benchmark itself, the same for both.
#pragma once

#include <cstdint>

#include "bench/common/both_sides.h"

namespace cuspan::bench::store {

// MurmurHash3's finalizer.
CUSPAN_BENCH_BOTH std::uint64_t Scramble(std::uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdull;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ull;
  return x ^ (x >> 33);
}

}  // namespace cuspan::bench::store

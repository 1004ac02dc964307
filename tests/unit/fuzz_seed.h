// Seeds of randomized tests. A plain run always uses the same seeds, so failures are reproducible.
// tests/fuzz.sh sets CUSPAN_FUZZ_SEED to a new value for each run.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace cuspan {

// Returns the number in an environment variable; `otherwise` if unset.
inline std::uint64_t FuzzNumber(const char* variable, std::uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// Returns `seed` in a plain run, and a different seed for each value of CUSPAN_FUZZ_SEED. The
// factor, 2^64 divided by the golden ratio, separates the seeds of different tests and runs.
inline std::uint64_t FuzzSeed(std::uint64_t seed) {
  return seed + FuzzNumber("CUSPAN_FUZZ_SEED", 0) * 0x9e37'79b9'7f4a'7c15;
}

}  // namespace cuspan

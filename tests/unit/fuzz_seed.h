// The seeds of tests that try inputs at random. A plain run has the same ones every time, so that
// what it finds is found again; tests/fuzz.sh sets CUSPAN_FUZZ_SEED, run after run, to try others.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace cuspan {

// The number in an environment variable; `otherwise` where it is not set.
inline std::uint64_t FuzzNumber(const char* variable, std::uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// `seed` in a plain run, and for each value of CUSPAN_FUZZ_SEED another one. The factor, 2^64
// divided by the golden ratio, keeps seeds of different tests and runs apart.
inline std::uint64_t FuzzSeed(std::uint64_t seed) {
  return seed + FuzzNumber("CUSPAN_FUZZ_SEED", 0) * 0x9e37'79b9'7f4a'7c15;
}

}  // namespace cuspan

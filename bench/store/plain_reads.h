// Random lines of a file read by plain system calls, for comparison with kernels.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/status.h"

namespace cuspan::bench::store {

// Numbers of the lines touched by a round of bench-store-served-program, each once. `lines`: of the
// file.
std::vector<std::uint64_t> LinesOfRound(std::uint64_t lines, std::uint64_t touched, int round);

// Drops the file's pages from the system's page cache. They must be written already.
Status DropPages(const std::string& file);

// Seconds to read these lines, of `line` bytes each. Every thread reads its part of them into a
// buffer of one line. Failures: kUnavailable.
Result<double> ReadByThreads(const std::string& file, std::span<const std::uint64_t> numbers,
                             std::uint32_t line, int threads);
// The same by one thread, with up to kRingDepth reads under way. kUnsupported: no io_uring in this
// build or on this system.
inline constexpr unsigned kRingDepth = 256;
Result<double> ReadByRing(const std::string& file, std::span<const std::uint64_t> numbers,
                          std::uint32_t line);

}  // namespace cuspan::bench::store

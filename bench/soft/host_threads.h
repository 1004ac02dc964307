// Plain C++ on several threads.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>

namespace cuspan::bench::soft {

// Calls part(thread, begin, end) with equal parts of [0, units) on `threads` threads, including the
// caller's. Returns when all have ended.
void InParallel(unsigned threads, std::size_t units,
                const std::function<void(unsigned, std::size_t, std::size_t)>& part);

inline double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace cuspan::bench::soft

#include "bench/soft/host_threads.h"

#include <thread>
#include <vector>

namespace cuspan::bench::soft {

void InParallel(unsigned threads, std::size_t units,
                const std::function<void(unsigned, std::size_t, std::size_t)>& part) {
  std::vector<std::jthread> others;
  for (unsigned i = 1; i < threads; ++i)
    others.emplace_back([&, i] { part(i, units * i / threads, units * (i + 1) / threads); });
  part(0, 0, units / threads);
}

}  // namespace cuspan::bench::soft

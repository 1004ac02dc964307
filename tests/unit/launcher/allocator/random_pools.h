// Random small pools, and the choices allowed for a request: for tests of every choice.
#pragma once

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <random>
#include <vector>

#include "launcher/allocator/policy.h"

namespace cuspan {

struct PoolCase {
  GpuPool pool;
  PoolLeases leases{GpuPool()};
  AllocationRequest request;
};

inline std::uint32_t RandomBelow(std::mt19937& random, std::uint32_t end) {
  return std::uniform_int_distribution<std::uint32_t>(0, end - 1)(random);
}

inline PoolCase RandomPoolCase(std::mt19937& random, std::uint32_t most_hosts,
                               std::uint32_t most_gpus) {
  const auto below = [&random](std::uint32_t end) { return RandomBelow(random, end); };
  PoolCase made;
  const std::uint32_t hosts = 1 + below(most_hosts);
  for (std::uint32_t host = 0; host < hosts; ++host) {
    std::vector<PoolGpu> gpus(below(most_gpus + 1));
    for (PoolGpu& gpu : gpus)
      gpu = {1 + below(3), static_cast<double>(1 + below(4)), 80 + 10 * below(2), below(8) != 0};
    made.pool.AddHost(gpus);
  }
  made.leases = PoolLeases(made.pool);
  for (std::uint8_t& held : made.leases.held) held = below(3) == 0;
  for (std::uint8_t& closed : made.leases.closed) closed = below(6) == 0;
  made.request.number = 1 + below(6);
  made.request.least_memory_bytes = 1 + below(2);
  made.request.least_capability = below(4) == 0 ? 90 : 0;
  if (below(2) == 0) made.request.home = below(hosts);
  if (below(2) == 0)
    for (std::uint32_t host = 0; host < hosts; ++host) made.request.host_limits.push_back(below(4));
  return made;
}

// Returns the number of chosen GPUs by host.
inline std::map<std::uint32_t, std::uint32_t> ByHost(const GpuPool& pool,
                                                     const std::vector<std::uint32_t>& gpus) {
  std::map<std::uint32_t, std::uint32_t> counts;
  for (const std::uint32_t gpu : gpus)
    for (std::uint32_t host = 0; host < pool.hosts.size(); ++host)
      if (gpu >= pool.hosts[host].first && gpu < pool.hosts[host].first + pool.hosts[host].count)
        ++counts[host];
  return counts;
}

// True if a request may have these GPUs: now or, with `ever`, if all were free.
inline bool MayHave(const PoolCase& made, const std::vector<std::uint32_t>& gpus, bool ever) {
  for (const std::uint32_t gpu : gpus) {
    if (!Fits(made.pool.gpus[gpu], made.request)) return false;
    if (!ever && made.leases.held[gpu] != 0) return false;
  }
  for (const auto& [host, count] : ByHost(made.pool, gpus)) {
    if (!ever && made.leases.closed[host] != 0) return false;
    if (!made.request.host_limits.empty() && count > made.request.host_limits[host]) return false;
  }
  return true;
}

// Calls `look` with each choice of the requested number of GPUs.
inline void ForEachChoice(const PoolCase& made,
                          const std::function<void(const std::vector<std::uint32_t>&)>& look) {
  const auto all = static_cast<std::uint32_t>(made.pool.gpus.size());
  for (std::uint32_t set = 0; set < 1U << all; ++set) {
    if (std::popcount(set) != static_cast<int>(made.request.number)) continue;
    std::vector<std::uint32_t> gpus;
    for (std::uint32_t gpu = 0; gpu < all; ++gpu)
      if ((set >> gpu & 1) != 0) gpus.push_back(gpu);
    look(gpus);
  }
}

}  // namespace cuspan

#include "bench/allocator/first_fit.h"

#include <algorithm>

namespace cuspan::bench::allocator {
namespace {

constexpr const char* kFirstFitName = "first-fit";

}  // namespace

Result<TestedPolicy> ParseTestedPolicy(std::string_view text) {
  if (text == kFirstFitName) return kFirstFit;
  const Result<Policy> policy = ParsePolicy(text);
  if (!policy.ok()) return Status::Invalid("{}, {}", policy.status().message(), kFirstFitName);
  return TestedPolicy(*policy);
}

const char* NameOf(TestedPolicy policy) { return policy ? PolicyName(*policy) : kFirstFitName; }

Decision DecideFirstFit(const GpuPool& pool, const PoolLeases& leases,
                        const AllocationRequest& request) {
  Decision decision;
  for (std::uint32_t number = 0; number < pool.hosts.size(); ++number) {
    const PoolHost& host = pool.hosts[number];
    const std::uint32_t limit =
        request.host_limits.empty() ? kUnlimited : request.host_limits[number];
    std::uint32_t fitting = 0, available = 0;
    for (std::uint32_t gpu = host.first; gpu < host.first + host.count; ++gpu) {
      if (!Fits(pool.gpus[gpu], request)) continue;
      if (fitting < limit) ++fitting;
      if (leases.held[gpu] != 0 || leases.closed[number] != 0 || available == limit) continue;
      ++available;
      decision.gpus.push_back(gpu);
    }
    decision.fitting += fitting;
    decision.available += available;
  }
  std::uint32_t wanted = request.number;
  if (request.amount == AllocationRequest::Amount::kAll)
    wanted = std::max(decision.fitting, 1U);
  else if (request.amount == AllocationRequest::Amount::kAllFree)
    wanted = std::max(decision.available, 1U);
  decision.verdict = wanted == 0 || wanted > decision.fitting ? Decision::Verdict::kNever
                     : wanted > decision.available            ? Decision::Verdict::kNotNow
                                                              : Decision::Verdict::kChosen;
  decision.gpus.resize(decision.verdict == Decision::Verdict::kChosen ? wanted : 0);
  return decision;
}

}  // namespace cuspan::bench::allocator
